"""Signing keys: how they are given, and what of them is ever shown."""

import base64
import hashlib
import hmac
import traceback

import pytest

from turnfleet import SigningKeys
from turnfleet.wire.signing import Signature

SECRET = b"correct horse battery staple, and then some"
TEXT = base64.b64encode(SECRET).decode()


def test_the_first_key_signs_and_every_key_verifies() -> None:
    """So that a rotation needs no moment at which everybody changes at once."""
    both = SigningKeys({"b": b"b" * 32, "a": SECRET})
    assert (both.current, both.names) == ("b", ("b", "a"))
    assert SigningKeys({"b": b"b" * 32, "a": SECRET}, current="a").current == "a"
    content = {"what": "a thing", "n": 1}
    old = SigningKeys({"a": SECRET}).sign(content)
    assert both.trouble(content, old) is None
    assert SigningKeys({"b": b"b" * 32}).trouble(content, old) == "unknown key"


def test_a_signature_is_of_its_content_and_its_key() -> None:
    """Any other content, any other key under the name, and no signature at all are told apart."""
    keys = SigningKeys({"a": SECRET})
    signature = keys.sign({"n": 1})
    assert keys.trouble({"n": 1.0}, signature) is None  # the same number in JSON
    assert keys.trouble({"n": 2}, signature) == "altered"
    assert keys.trouble({"n": 1, "m": None}, signature) == "altered"
    assert keys.trouble({"n": float("nan")}, signature) == "altered"
    assert SigningKeys({"a": b"x" * 32}).trouble({"n": 1}, signature) == "altered"
    assert keys.trouble({"n": 1}, Signature("a", "\u00e9" * 64)) == "altered"
    assert keys.trouble({"n": 1}, None) == "unsigned"


def test_it_is_hmac_sha256_over_canonical_json() -> None:
    """Keys sorted, no space, UTF-8, shortest numbers: what another language must come to."""
    signature = SigningKeys({"k": bytes(range(32))}).sign({"b": [1.0, 2.5, None], "a": "\u00e9"})
    written = '{"a":"\u00e9","b":[1,2.5,null]}'.encode()
    assert signature == Signature("k", hmac.new(bytes(range(32)), written, hashlib.sha256).hexdigest())


def test_keys_come_from_the_environment() -> None:
    """`name:base64,name:base64`, in either alphabet; nothing set is no keys."""
    url_safe = base64.urlsafe_b64encode(b"\xff" * 33).decode()
    keys = SigningKeys.from_environment({"TURNFLEET_SIGNING_KEYS": f" 2026-11:{TEXT} , x:{url_safe}"})
    assert keys is not None
    assert (keys.current, keys.names) == ("2026-11", ("2026-11", "x"))
    assert keys.trouble({}, SigningKeys({"x": b"\xff" * 33}).sign({})) is None
    assert SigningKeys.from_environment({}) is None
    assert SigningKeys.from_environment({"TURNFLEET_SIGNING_KEYS": " "}) is None


@pytest.mark.parametrize(
    "text", [TEXT, f"a:{TEXT}!", f"a:{TEXT[:8]}", f"a:{TEXT},a:{TEXT}", f"a b:{TEXT}", f"a:{TEXT},", f"a:{SECRET!r}"]
)
def test_what_cannot_be_a_key_is_refused_without_being_shown(text: str) -> None:
    """A mistyped key is still nearly a key."""
    with pytest.raises(ValueError, match="TURNFLEET_SIGNING_KEYS") as refused:
        SigningKeys.from_environment({"TURNFLEET_SIGNING_KEYS": text})
    shown = "".join(traceback.format_exception(refused.value, chain=True))
    assert TEXT[:8] not in shown
    assert "correct horse" not in shown


def test_no_key_is_in_what_is_printed() -> None:
    """Nor in an attribute that a debugger's dump of an object would list."""
    keys = SigningKeys({"a": SECRET})
    assert repr(keys) == f"{keys}" == "SigningKeys(a; current='a')"
    assert not hasattr(keys, "__dict__")


def test_keys_that_make_no_sense_are_refused() -> None:
    """Short ones, none, texts, and a current one that is not there."""
    for keys, current in (({}, None), ({"a": b"short"}, None), ({"a": SECRET}, "b"), ({"a": "x" * 40}, None)):
        with pytest.raises(ValueError, match=r"sign|current"):
            SigningKeys(keys, current=current)  # type: ignore[arg-type]
