"""Labels out of names that are a user's data: a bounded number of them, each of a bounded length."""

from typing import Final

OTHERS: Final = "(others)"
MOST_CHARACTERS: Final = 80


class Few:
    """Lets the first `most` names through, and calls all later ones `OTHERS`: each label is a series for ever."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        """Return the label for a name."""
        name = name[:MOST_CHARACTERS]
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHERS
            self._known.add(name)
        return name
