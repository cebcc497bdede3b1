"""The Lua scripts, put together: the state table, the shared rooms a script needs, then the script itself."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final, Literal, TypeAlias

from turnfleet.store.transitions import render

# What each script is built from. `allow-oom`: it frees memory or saves what was done, so it must work when the server
# is full; the others are refused there before their first write. `no-writes`: it only reads.
_SAVES: Final = "allow-oom"
_READS: Final = "no-writes"
_PARTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "create": ("", ("moves", "newrun")),
    "claim": ("", ("moves", "newrun")),
    "step": (_SAVES, ("moves", "claimed")),
    "beat": (_SAVES, ("moves", "claimed")),
    "pause": (_SAVES, ("moves", "claimed", "people")),
    "finish": (_SAVES, ("moves", "claimed")),
    "release": (_SAVES, ("moves", "claimed")),
    "park": (_SAVES, ("moves", "claimed")),
    "unpark": (_SAVES, ("moves",)),
    "offer_now": (_SAVES, ("moves",)),
    "resume": (_SAVES, ("moves", "people")),
    "cancel": (_SAVES, ("moves",)),
    "retry": ("", ("moves",)),
    "delete": (_SAVES, ("moves",)),
    "sweep": (_SAVES, ("moves", "claimed", "people")),
    "look": (_READS, ()),
    "journal": (_READS, ()),
    "file": (_READS, ()),
    "browse": (_READS, ("walk",)),
    "listing": (_SAVES, ("walk",)),
    "inbox": (_SAVES, ("moves", "people", "walk")),
    "read_events": (_READS, ()),
    "thread": (_SAVES, ()),
    "clock": (_READS, ()),
    "sweep_lock": (_SAVES, ()),
    "announce": (_SAVES, ()),
    "survey": (_READS, ()),
    "workers": (_SAVES, ("alive",)),
    "announced": (_READS, ("alive",)),
}


Dialect: TypeAlias = Literal["flagged", "plain", "sharded"]
"""The form of a script: with the line that carries its flags; without it, for old engines; for a cluster's nodes."""

_PUBLISH: Final = "local PUBLISH = 'PUBLISH'\n"
_SHARDED: Final = "local PUBLISH = 'SPUBLISH'\n"


@dataclass(frozen=True, slots=True)
class Script:
    """A script's texts, by dialect, and the names under which a server caches them."""

    name: str
    texts: Mapping[Dialect, str]
    shas: Mapping[Dialect, str] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the names."""
        object.__setattr__(self, "shas", {dialect: _sha(text) for dialect, text in self.texts.items()})


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _read(name: str) -> str:
    return (files("turnfleet.store") / "lua" / f"{name}.lua").read_text("utf-8")


@cache
def script(name: str) -> Script:
    """Return a script by its name; built once a process."""
    flags, rooms = _PARTS[name]
    program = "\n".join([render(), *map(_read, ("_prelude", *(f"_{room}" for room in rooms), name))])
    shebang = f"#!lua flags={flags}\n" if flags else "#!lua\n"
    return Script(
        name,
        {
            "flagged": shebang + _PUBLISH + program,
            "plain": _PUBLISH + program,
            "sharded": shebang + _SHARDED + program,
        },
    )


def names() -> tuple[str, ...]:
    """Return the names of all scripts."""
    return tuple(_PARTS)
