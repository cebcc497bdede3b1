"""Reading what another process is still writing."""

from pathlib import Path


def whole_lines(text: str) -> list[str]:
    """Give the lines that were written to their end.

    A reader may see half of one write: the kernel lets it look between two pages of the file.
    """
    return text[: text.rfind("\n") + 1].splitlines()


def lines_so_far(path: Path) -> list[str]:
    """Give the whole lines of a file that another process appends to; none where it is not there yet."""
    return whole_lines(path.read_text()) if path.exists() else []
