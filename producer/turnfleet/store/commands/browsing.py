"""Reading many runs as a worker would find them, without changing anything: what a check before a rollout needs.

The scripts are declared `no-writes`, so that the server itself refuses a change, and a replica may be asked.
"""

from dataclasses import dataclass

from turnfleet.store.command import Command, Reply, args, header, on_run, pairs, tag
from turnfleet.store.commands.claimed import read_claim
from turnfleet.store.keys import Keys, validate_id
from turnfleet.store.paging import Position
from turnfleet.store.people import read_interrupts
from turnfleet.store.records import Claim, StoredInterrupt
from turnfleet.store.transitions import STATES

_SCAN = 2_000  # index entries that one call looks at, at most


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page of a shard's runs in one state: their ids, newest created first.

    `size` is how many the index holds. `stopped` is where the next page begins; None: this was the last one.
    """

    size: int
    run_ids: tuple[str, ...]
    stopped: Position | None


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run as its next claim would find it: `claim` is what that would give, and is none."""

    state: str
    plan_name: str
    claim: Claim
    interrupts: tuple[StoredInterrupt, ...]


def browse(
    keys: Keys,
    shard: int,
    *,
    state: str,
    tenant: str | None = None,
    before: Position | None = None,
    limit: int = 100,
) -> Command[Browsed]:
    """Give a page of a shard's runs in a state, and with `tenant` only that tenant's; writes nothing."""
    if state not in STATES:
        raise ValueError(f"state {state!r} does not exist: use one of {', '.join(STATES)}")
    index = f"s:{state}" if tenant is None else f"t:{validate_id('tenant', tenant)}"
    position = ("", "") if before is None else (str(before[0]), before[1])
    arguments = args(index, None if tenant is None else state, *position, limit, _SCAN)

    def decode(reply: Reply) -> Browsed:
        size, rows, stopped = reply
        place = None if stopped is None else (int(stopped[0]), stopped[1].decode())
        return Browsed(int(size), tuple(run.decode() for run, _ in rows), place)

    return Command("browse", keys.prefix(shard), (*header(keys), *arguments), decode)


def run_file(keys: Keys, run_id: str) -> Command[RunFile]:
    """Give a run as its next claim would find it, of one moment; writes nothing. Raises `UnknownRun`."""
    validate_id("run id", run_id)

    def decode(reply: Reply) -> RunFile:
        tag(run_id, reply)
        _, flat, journal, interrupts = reply
        record = pairs(flat)
        claim = read_claim(run_id, record, journal)
        return RunFile(record["state"].decode(), record["plan_name"].decode(), claim, read_interrupts(interrupts))

    return on_run("file", keys, run_id, (), decode)
