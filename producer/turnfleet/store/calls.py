"""What both executors share, without any input or output: how a command is written, and what an answer means."""

from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis' own names: what is caught here is theirs, never the builtin
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,  # noqa: A004
    TryAgainError,
)

from turnfleet.errors import FleetUnavailable, StoreError, TurnfleetError
from turnfleet.store.command import Command
from turnfleet.store.reasons import distrusted, refused_login
from turnfleet.store.scripts import Dialect, names, script

PROBE: Final = "#!lua\nreturn 1"
"""A script with a first line of flags. An engine that refuses it (fakeredis, Redis 6) is sent the plain texts."""

BATCH: Final = 256
"""Commands that leave in one write, at most."""

TIMEOUT_SECONDS: Final = 5.0
UNREADY_PAUSE_SECONDS: Final = 0.1
_UNREADY: Final = (BusyLoadingError, MovedError, AskError, TryAgainError, ClusterDownError)
_MISPLACED: Final = (MovedError, ClusterDownError, ConnectionError, TimeoutError, OSError)
TRIES: Final = 2  # for each of the two: the connection is lost, and then the scripts are gone, as after a failover


def evalsha(command: Command[Any], dialect: Dialect) -> tuple[str | bytes | int, ...]:
    """Return a command as Redis words.

    The one key that is told is what the keys of a shard begin with, and never exists itself: so a cluster's node whose
    slot is on its way to another refuses the script (ASK) instead of running it on the keys that it still has.
    """
    return ("EVALSHA", script(command.script).shas[dialect], 1, command.key.encode(), *command.args)


def loads(dialect: Dialect) -> list[tuple[str, ...]]:
    """Return the words that load every script. All at once: a batch must not run in part for want of one."""
    return [("SCRIPT", "LOAD", script(name).texts[dialect]) for name in names()]


def unloaded(results: Sequence[Any]) -> bool:
    """Whether the server has lost the scripts (it restarted)."""
    return any(isinstance(result, NoScriptError) for result in results)


def unready(result: Any) -> bool:
    """Whether nothing was done yet and may be a moment later: a server reads its data, a cluster's slot moves."""
    return isinstance(result, _UNREADY)


def misplaced(results: Sequence[Any]) -> bool:
    """Whether a cluster's node may not be, or no longer be, the one that was meant: ask who has which slots."""
    return any(isinstance(result, _MISPLACED) for result in results)


def worth_repeating(command: Command[Any], result: Any) -> bool:
    """Whether to send a command again: it did nothing, or the connection was lost and doing it twice is the same.

    A time-out is not repeated: the caller has waited long enough.
    """
    if isinstance(result, NoScriptError) or unready(result):
        return True
    return isinstance(result, ConnectionError) and command.repeatable


class Sending:
    """Some commands on their way, and what became of them. Decides what is sent again; does not send."""

    def __init__(self, commands: Sequence[Command[Any]], limit: float) -> None:
        self.results: list[Any] = [None] * len(commands)
        self._commands = commands
        self._pending = list(range(len(commands)))
        self._limit = limit
        self._lost = 0
        self._unloaded = 0

    @property
    def pending(self) -> list[Command[Any]]:
        """The commands to send now, in order."""
        return [self._commands[place] for place in self._pending]

    def take(self, answers: Sequence[Any], now: float) -> float | None:
        """Note the answers to `pending`. Return the seconds to wait before sending what is pending then; None: done."""
        for place, answer in zip(self._pending, answers, strict=True):
            self.results[place] = answer
        self._pending = [p for p in self._pending if worth_repeating(self._commands[p], self.results[p])]
        if not self._pending or now >= self._limit:
            return None
        if any(unready(self.results[place]) for place in self._pending):
            return UNREADY_PAUSE_SECONDS
        if unloaded([self.results[place] for place in self._pending]):
            self._unloaded += 1
            return 0.0 if self._unloaded <= TRIES else None
        self._lost += 1
        return 0.0 if self._lost <= TRIES else None


def translate(error: Exception, run_id: str | None, where: str) -> TurnfleetError:
    """Return our error for redis' (raise it from theirs). No URL, argument or reply gets into the text."""
    about = f" (run {run_id!r})" if run_id else ""
    kind = type(error).__name__
    if isinstance(error, OutOfMemoryError):
        return FleetUnavailable(
            f"the fleet's Redis at {where} is out of memory{about}: free some or raise maxmemory", run_id=run_id
        )
    code = str(error).partition(" ")[0]
    if isinstance(error, (ReadOnlyError, NoScriptError, *_UNREADY)) or code in _NO_WRITES:
        kind = code if code in _NO_WRITES else kind
        return FleetUnavailable(
            f"the fleet's Redis at {where} takes no writes now{about}: {kind}; try again", run_id=run_id
        )
    distrust = distrusted(error)
    if distrust is not None:
        return FleetUnavailable(
            f"the TLS certificate of the fleet's Redis at {where} was not accepted{about}: {distrust}; "
            "is ssl_ca_certs in the URL its authority's, and is the host the one that it names?",
            run_id=run_id,
        )
    if isinstance(error, ConnectionError | TimeoutError | OSError):
        refused = refused_login(error)
        kind = kind if refused is None else type(refused).__name__
        why = "is the login in its URL right?" if refused is not None else "is it running and reachable?"
        return FleetUnavailable(f"the fleet's Redis at {where} did not answer{about}: {kind}; {why}", run_id=run_id)
    if isinstance(error, ResponseError):
        advice = _MAY_NOT if _forbidden(error) else ""
        return StoreError(f"the fleet's Redis at {where} refused a command{about}: {_first_line(error)}{advice}")
    return StoreError(f"the fleet's Redis at {where} could not be used{about}: {kind}")


def may_pass(error: FleetUnavailable) -> bool:
    """Whether the server may answer later on its own: a login or a certificate that was refused stays refused."""
    cause = error.__cause__
    return cause is None or (refused_login(cause) is None and distrusted(cause) is None)


_NO_WRITES: Final = frozenset({"NOREPLICAS", "MISCONF"})
"""What a server says before a script begins: too few replicas are in step, or it cannot write to its disk."""

_MAY_NOT: Final = "; the user in its URL may not do that: turnfleet acl prints what each kind of user needs"


def _forbidden(error: ResponseError) -> bool:
    """Whether it is the user's rights: of the command itself, or of one that its script runs."""
    return isinstance(error, NoPermissionError) or str(error).startswith("The user executing the script can't")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def read(command: Command[Any], result: Any, where: str) -> Any:
    """Return what a reply means; raise our error when it is one."""
    if isinstance(result, Exception):
        raise translate(result, command.run_id, where) from result
    return command.decode(result)


def read_many(commands: Sequence[Command[Any]], results: Sequence[Any], where: str) -> list[Any]:
    """Return what each reply means; an error of ours stands in its command's place."""
    readings: list[Any] = []
    for command, result in zip(commands, results, strict=True):
        try:
            readings.append(read(command, result, where))
        except TurnfleetError as error:
            readings.append(error)
    return readings
