"""The page about testing agents: its tests pass as they stand there, in a folder of their own."""

from pathlib import Path

from support.pages import Shop


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    """The first ones by themselves, then all of them."""
    with Shop("docs/how-to/testing-your-agents.md", tmp_path) as shop:
        shop.write("myfleet.py", "test_refunds.py")
        shop.shell("run the tests")
        shop.write("test_time.py", "test_faults.py", "test_failures.py", "test_async.py")
        shop.shell("run them all")
