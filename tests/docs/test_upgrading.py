"""The upgrading page: a build that would break a run is noticed, and one that would not is rolled out."""

from pathlib import Path

import pytest
from support.pages import Shop
from support.waiting import eventually

from turnfleet import Fleet

pytestmark = pytest.mark.slow


def test_from_a_hasty_build_to_one_that_goes_on(tmp_path: Path, own_redis_url: str) -> None:
    """Preflight says no, then yes; the new worker makes the call that the old one asked about."""
    with Shop("docs/how-to/upgrading.md", tmp_path, redis_url=own_redis_url) as shop, Fleet(own_redis_url) as fleet:
        shop.write("myfleet.py", "hasty/myfleet.py", "next/myfleet.py")
        with shop.running("the deployed worker"):
            eventually(fleet.workers, what="a worker")
            shop.python("enqueue.py")
            shop.shell("preflight of the hasty build")
            shop.shell("preflight of the next build")
        with shop.running("the new worker"):
            eventually(fleet.workers, what="the new worker")
            shop.shell("approve")
            shop.python("result.py")
