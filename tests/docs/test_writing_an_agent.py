"""The page about writing an agent: its tests pass as they stand there, and a worker would take its fleet."""

from pathlib import Path

from support.pages import Shop


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    """Without a key and a server."""
    with Shop("docs/how-to/writing-an-agent.md", tmp_path) as shop:
        shop.write("desk.py", "talk.py", "test_desk.py")
        shop.shell("run the tests")
