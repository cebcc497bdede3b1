"""A release serves the envelopes of its own version and of the one before it, by construction (DESIGN 5, "Version")."""

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from turnfleet.errors import InvalidEnvelope
from turnfleet.wire import envelope as wire
from turnfleet.wire.envelope import Envelope, parse_envelope
from turnfleet.wire.versions import VERSIONS, Versions

FOREIGN: dict[str, Any] = {
    "fleet": "f",
    "run_id": "r",
    "plan": {"name": "p", "model": "m"},
    "request": {"prompt": "hi"},
}


def read_the_older(envelope: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read version 1 as version 2, which has a field more."""
    return {"region": "home", **envelope}


class Second(Envelope):
    """An envelope of a release to come: a field more, and a version higher."""

    v: Literal[2] = 2  # type: ignore[assignment]
    region: str


def test_today_there_is_one_version() -> None:
    """Version 1 is served, with or without being said; there was none before it."""
    assert VERSIONS.served == (1,)
    assert parse_envelope(FOREIGN) == parse_envelope({"v": 1, **FOREIGN})


@pytest.mark.parametrize("version", [0, 2, -1, True, "1", 1.0, None])
def test_another_version_is_refused_by_its_number(version: Any) -> None:
    """What this release does not know it does not guess; what is no number is said to be none."""
    with pytest.raises(InvalidEnvelope, match=r"is not served here: this release serves version 1$"):
        parse_envelope({**FOREIGN, "v": version})


def test_the_next_release_serves_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With version 2 as the current one, 1 is read as 2, 2 as it is, and 0 and 3 are refused."""
    monkeypatch.setattr(wire, "VERSIONS", Versions(2, {1: read_the_older}))
    monkeypatch.setattr(wire, "Envelope", Second)
    older: Any = parse_envelope({**FOREIGN, "v": 1})
    newer: Any = parse_envelope({**FOREIGN, "v": 2, "region": "abroad"})
    assert [(each.v, each.region, each.run_id) for each in (older, newer)] == [(2, "home", "r"), (2, "abroad", "r")]
    for version in (0, 3):
        with pytest.raises(InvalidEnvelope, match=f"envelope version {version} .* serves versions 1 and 2"):
            parse_envelope({**FOREIGN, "v": version})


def test_the_one_after_it_serves_two() -> None:
    """N and N-1, no more."""
    assert Versions(3, {2: dict}).served == (3, 2)
    with pytest.raises(InvalidEnvelope, match="version 1 "):
        Versions(3, {2: dict}).read({"v": 1})


def test_a_release_cannot_forget_the_one_before() -> None:
    """Raising the version without saying how the one before reads is no release."""
    with pytest.raises(ValueError, match="version 1 must be served"):
        Versions(2)
