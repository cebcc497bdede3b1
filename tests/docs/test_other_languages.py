"""The page for other languages: what it sends is taken, and what it reads fits the published schemas."""

import json
from pathlib import Path

import jsonschema
import pytest
from support.pages import ROOT, Shop

from turnfleet import Fleet, event_to_json

pytestmark = pytest.mark.slow

FLEET = """
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, create_app

registry = Registry()
registry.model("greeter", ScriptedModel(["Hello, Ada!"]))
app = create_app(registry, "{url}")
"""


def test_celery_and_redis_clients_alone_are_enough(tmp_path: Path, own_redis_url: str) -> None:
    """Enqueued and read without turnfleet; a run's own events fit event.json."""
    with Shop("docs/reference/other-languages.md", tmp_path, redis_url=own_redis_url) as shop:
        (tmp_path / "myfleet.py").write_text(FLEET.format(url=own_redis_url))
        with shop.process("celery -A myfleet worker -c 5", name="worker of the test"):
            shop.python("send.py")
            shop.python("read.py")
            shop.python("read.py")
            with Fleet(own_redis_url) as fleet:
                written = [event_to_json(event) for event in fleet.run("ticket-9").events()]
    schema = json.loads((ROOT / "docs/reference/schemas/event.json").read_text())
    for event in written:
        jsonschema.validate(json.loads(json.dumps(event)), schema)
