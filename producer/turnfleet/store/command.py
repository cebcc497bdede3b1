"""A command: which script to run, on what, and how to read its answer. Nothing here does any input or output."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar, cast

from turnfleet.errors import ClaimLost, IllegalTransition, StepGap, UnknownRun
from turnfleet.store.keys import Keys
from turnfleet.store.records import Offer

# Made once: json.dumps would make one for every value.
_as_it_is = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_escaped = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Argument: TypeAlias = bytes
Reply: TypeAlias = Any
"""What a script answers: bytes, None and lists of them."""


@dataclass(frozen=True, slots=True)
class Command(Generic[T_co]):
    """One call of one script.

    `decode` reads the reply, and raises the error that the reply stands for. `repeatable`: running it twice gives
    what running it once gives, so that a client may repeat it when the reply was lost. `run_id` is for messages.
    `durable`: its answer waits for a replica to have the write, where the server has one.
    """

    script: str
    key: str
    args: tuple[Argument, ...]
    decode: Callable[[Reply], T_co]
    run_id: str | None = None
    repeatable: bool = True
    durable: bool = False


def dump(value: Any) -> bytes:
    """Return a value's JSON, compact, in UTF-8. Raises ValueError for what JSON cannot carry (NaN, infinity)."""
    try:
        return _as_it_is(value).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as a model may stream it: escaped, JSON carries it
        return _escaped(value).encode()


def canonical(value: Any) -> bytes:
    """Return a value's JSON with sorted keys: equal values give equal bytes."""
    return dump(json.loads(json.dumps(value, sort_keys=True, allow_nan=False)))


def arg(value: str | bytes | float | None) -> Argument:
    """Return one script argument; None is the empty text, which scripts read as "absent"."""
    if isinstance(value, bytes):
        return value
    if value is None:
        return b""
    if isinstance(value, bool):
        return b"1" if value else b"0"
    return str(value).encode(errors="replace")


def args(*values: str | bytes | float | Sequence[bytes] | None) -> tuple[Argument, ...]:
    """Return script arguments in order; a list or tuple is preceded by its length."""
    flat: list[Argument] = []
    for value in values:
        if isinstance(value, list | tuple):
            flat.append(str(len(value)).encode())
            flat.extend(value)
        else:
            flat.append(arg(cast("str | bytes | float | None", value)))
    return tuple(flat)


@cache
def header(keys: Keys) -> tuple[Argument, ...]:
    """Return the arguments that every script begins with."""
    return args(keys.log_batches, keys.first_look_ms, keys.control_prefix)


def on_run(
    script: str,
    keys: Keys,
    run_id: str,
    arguments: tuple[Argument, ...],
    decode: Callable[[Reply], T],
    *,
    repeatable: bool = True,
    durable: bool = False,
) -> Command[T]:
    """Return a command on one run, in the run's shard. `arguments` follow the run id."""
    prefix = keys.prefix(keys.shard(run_id))
    return Command(script, prefix, (*header(keys), run_id.encode(), *arguments), decode, run_id, repeatable, durable)


def text(value: bytes | None) -> str | None:
    """Return a reply's text, or None when it is absent."""
    return None if value is None else value.decode()


def whole(value: bytes | None) -> int | None:
    """Return a reply's number, or None when it is absent."""
    return None if value is None else int(value)


def load_json(value: bytes | None, absent: Any = None) -> Any:
    """Return a reply's JSON value, or `absent`."""
    return absent if value is None else json.loads(value)


def pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    """Return what HGETALL answers to a script as a mapping."""
    return {flat[place].decode(): flat[place + 1] for place in range(0, len(flat), 2)}


def read_offer(reply: Reply) -> Offer | None:
    """Return the offer that a script made, or None when it made none."""
    if reply is None:
        return None
    run_id, number, queue, priority, thread_id, plan_id, digest, plan_name, trace = reply
    return Offer(
        run_id.decode(),
        int(number),
        queue.decode(),
        int(priority),
        text(thread_id),
        plan_id.decode(),
        digest.decode(),
        plan_name.decode(),
        text(trace),
    )


def tag(run_id: str, reply: Reply) -> str:
    """Return what a reply begins with; raise the refusal that it may stand for."""
    match reply[0]:
        case b"unknown":
            raise UnknownRun(run_id)
        case b"lost":
            raise ClaimLost(run_id, reply[1].decode())
        case b"gap":
            raise StepGap(run_id, reply[1].decode(), expected=int(reply[2]), given=int(reply[3]))
        case b"illegal":
            raise IllegalTransition(run_id, reply[1].decode(), reply[2].decode())
        case word:
            return cast("str", word.decode())


def object_list(values: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Return the JSON of each of some objects."""
    return [dump(value) for value in values]
