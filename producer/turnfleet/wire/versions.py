"""Which envelope versions are served: the one that this release writes, and the one before it (DESIGN 5, "Version").

The next version is a small change: raise `CURRENT`, change the envelope's fields, and put into `UPGRADES` how an
envelope of the version before reads as one of now. Leaving that out is refused when the module is imported, so that no
release can forget the runs that wait in the queues of the one before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from turnfleet.errors import InvalidEnvelope

Upgrade = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Gives an envelope of one version as one of the next, apart from its `v`."""

FIRST: Final = 1


@dataclass(frozen=True, slots=True)
class Versions:
    """A release's versions. `upgrades` must have the one that reads `current - 1`, once there is such a version."""

    current: int
    upgrades: Mapping[int, Upgrade] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Refuse a release that could not serve the one before it."""
        for version in self.served:
            if version != self.current and version not in self.upgrades:
                raise ValueError(f"envelopes of version {version} must be served: say how one reads as a newer one")

    @property
    def served(self) -> tuple[int, ...]:
        """The versions that a worker of this release serves, newest first."""
        return tuple(version for version in (self.current, self.current - 1) if version >= FIRST)

    def read(self, envelope: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give an envelope as one of the current version; one without `v` is of the current one.

        Raises `InvalidEnvelope` for a version that is not served.
        """
        version = envelope.get("v", self.current)
        if type(version) is not int or version not in self.served:
            shown = version if type(version) is int else "not a number"
            serves = " and ".join(map(str, sorted(self.served)))
            plural = "s" if len(self.served) > 1 else ""
            raise InvalidEnvelope(
                f"envelope version {shown} is not served here: this release serves version{plural} {serves}"
            )
        if version == self.current:
            return envelope
        return {**self.upgrades[version](envelope), "v": self.current}


VERSIONS: Final = Versions(current=1)
