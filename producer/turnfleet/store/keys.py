"""Where things lie in Redis. One run's keys and the indexes it belongs to share a slot (DESIGN 1, "Keys")."""

import re
import zlib
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from turnfleet.errors import InvalidId

ID_PATTERN: Final = "[A-Za-z0-9._:@-]{1,200}"
FLEET_PATTERN: Final = "[A-Za-z0-9._-]{1,64}"
_ID: Final = re.compile(ID_PATTERN)
_FLEET: Final = re.compile(FLEET_PATTERN)
_PREFIX: Final = re.compile(r"[A-Za-z0-9._:-]{0,64}")

Kind: TypeAlias = Literal["run id", "thread id", "tenant", "fleet name", "key prefix"]


def validate_id(kind: Kind, value: str) -> str:
    """Return `value` when keys, channels and task ids can carry it.

    Raises `InvalidId`, naming the rule: 1 to 200 characters of `A-Z a-z 0-9 . _ : @ -`; a fleet name has 1 to 64
    of `A-Z a-z 0-9 . _ -`, a key prefix up to 64 of those and `:`.
    """
    match kind:
        case "fleet name":
            pattern, rule = _FLEET, "use 1 to 64 letters, digits or ._-"
        case "key prefix":
            pattern, rule = _PREFIX, "use up to 64 letters, digits or ._:-"
        case _:
            pattern, rule = _ID, "use 1 to 200 letters, digits or ._:@-"
    given: object = value  # a caller without a type checker may hand in anything
    if not isinstance(given, str) or pattern.fullmatch(given) is None:
        raise InvalidId(kind, value, rule)
    return value


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of a fleet's keys and channels, and two settings that every script writes by.

    `shards` must be the same for everybody who uses the fleet. `log_batches` bounds a run's event log (about that
    many batches are kept). `first_look_ms` is how long a queued run's message has before the sweep first looks.
    Every key and channel begins with `key_prefix`.
    """

    fleet: str
    shards: int = 16
    log_batches: int = 10_000
    first_look_ms: int = 10_000
    key_prefix: str = ""

    def __post_init__(self) -> None:
        """Refuse names and numbers that would scatter or lose runs."""
        validate_id("fleet name", self.fleet)
        validate_id("key prefix", self.key_prefix)
        if self.shards < 1 or self.log_batches < 1 or self.first_look_ms < 0:
            raise ValueError("shards and log_batches must be at least 1, first_look_ms at least 0")

    def shard(self, run_id: str) -> int:
        """Return the shard of a run (or thread) id: CRC-32 modulo the number of shards."""
        return zlib.crc32(run_id.encode()) % self.shards

    def prefix(self, shard: int) -> str:
        """Return what every key of a shard begins with: the fleet's key prefix, its hash tag, and a colon."""
        return f"{self.key_prefix}{{{self.fleet}:{shard}}}:"

    def record(self, run_id: str) -> str:
        """Return the key of a run's record (hash)."""
        return f"{self.prefix(self.shard(run_id))}r:{run_id}"

    def journal(self, run_id: str) -> str:
        """Return the key of a run's journal (list of JSON objects)."""
        return f"{self.prefix(self.shard(run_id))}j:{run_id}"

    def events(self, run_id: str) -> str:
        """Return the key of a run's event log (stream), which is its pub/sub channel, too."""
        return f"{self.prefix(self.shard(run_id))}e:{run_id}"

    def interrupts(self, run_id: str) -> str:
        """Return the key of a run's interrupts (hash)."""
        return f"{self.prefix(self.shard(run_id))}i:{run_id}"

    def control(self, run_id: str) -> str:
        """Return the channel on which a running run's owner hears of a cancel or an expiry."""
        return f"{self.control_prefix}{run_id}"

    @property
    def control_prefix(self) -> str:
        """What every control channel begins with."""
        return f"{self.key_prefix}{{{self.fleet}}}:c:"

    def thread(self, thread_id: str) -> str:
        """Return the key of a thread's line of runs (sorted set)."""
        return f"{self.prefix(self.shard(thread_id))}th:{thread_id}"

    @property
    def workers(self) -> str:
        """The key of the live workers' announcements (hash)."""
        return f"{self.key_prefix}{{{self.fleet}}}:workers"

    @property
    def sweep_lock(self) -> str:
        """The key that says which worker sweeps."""
        return f"{self.key_prefix}{{{self.fleet}}}:sweep"
