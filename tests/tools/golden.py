"""Writes the golden files of this release: what its runs and messages look like, byte for byte.

::

    python tests/tools/golden.py            # write tests/golden/<version>, before that version is released
    python tests/tools/golden.py --check    # exit 1 if making them again gives something else

Files of a version that was released are never written again: later releases are held to them.
"""

import asyncio
import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(TESTS)  # in place of this folder, in which this file has a package's name

from golden.scenarios import SCENARIOS  # noqa: E402 - tests/ is importable from here on
from golden.workshop import Workshop  # noqa: E402
from support.redis_server import RedisServer  # noqa: E402

from turnfleet.store import Keys  # noqa: E402
from turnfleet.store.executor import AsyncExecutor  # noqa: E402
from turnfleet.wire.envelope import Envelope, RunOptions, first_offer, new_run, reoffer  # noqa: E402
from turnfleet.wire.request import RequestBody, request_digest  # noqa: E402
from turnfleet_kernel.contracts.spec import PlanSpec, plan_id  # noqa: E402

SUMS = "SHA256SUMS"


def folder(of: str) -> Path:
    """Give the folder of a version's golden files."""
    return TESTS / "golden" / of


async def runs(url: str) -> dict[str, Any]:
    """Make all runs."""
    executor = AsyncExecutor(url)
    try:
        shop = Workshop(executor, Keys("golden"))
        return {f"run-{each.name}.json": await shop.make(each) for each in SCENARIOS}
    finally:
        await executor.aclose()


def envelopes() -> dict[str, Any]:
    """Make one envelope of each kind."""
    plan = PlanSpec(name="golden", model="spelled", tools=("pay",), limits={"max_model_rounds": 3})
    request = RequestBody(prompt="hi", history=({"role": "user", "content": "before"},), metadata={"team": "a"})
    identity = plan_id(plan)
    first = Envelope(
        fleet="golden",
        run_id="r-1",
        recorded=True,
        plan=plan,
        plan_id=identity,
        request=request,
        digest=request_digest(identity, request.to_json()),
        options=RunOptions(
            queue="q", priority=9, thread_id="t", tenant="acme", eta=10.0, expires=20.5, metadata={"a": 1}
        ),
    )
    foreign = {
        "v": 1,
        "fleet": "golden",
        "run_id": "r-2",
        "plan": {"name": "golden", "model": "spelled"},
        "request": {"prompt": "hi"},
    }
    again = reoffer("golden", first_offer(new_run(first)))
    return {"first": first.to_json(), "reoffer": again.to_json(), "foreign": foreign}


def make() -> dict[str, bytes]:
    """Make every file of this release, by name."""
    server = RedisServer()
    server.start()
    try:
        made = asyncio.run(runs(server.url)) | {"envelopes.json": envelopes()}
    finally:
        server.close()
    files = {name: (json.dumps(value, indent=1, sort_keys=True) + "\n").encode() for name, value in made.items()}
    return files | {SUMS: sums(files)}


def sums(files: dict[str, bytes]) -> bytes:
    """Give what `sha256sum` would print of files."""
    return "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items())
    ).encode()


def main(arguments: list[str]) -> int:
    """Write or check."""
    target, made = folder(version("turnfleet")), make()
    if arguments == ["--check"]:
        there = {path.name: path.read_bytes() for path in target.iterdir()} if target.exists() else {}
        differing = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
        sys.stdout.write("".join(f"{name} differs\n" for name in differing))
        return 1 if differing else 0
    target.mkdir(exist_ok=True)
    for path in target.iterdir():
        path.unlink()
    for name, content in made.items():
        (target / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
