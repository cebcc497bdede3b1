"""A run's events, read back from its log."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnfleet.errors import EventsTrimmed
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet_worker.persistence import persist

PAGE: Final = 500


async def events_since(executor: AsyncExecutor, keys: Keys, run_id: str, first: int) -> Sequence[Mapping[str, Any]]:
    """Return the events with index `first` and above; without those that left the bounded log."""
    events: list[Mapping[str, Any]] = []
    after = first - 1
    while True:
        command = commands.read_events(keys, run_id, after=after, count=PAGE)
        try:
            page = await persist(executor, command)
        except EventsTrimmed as trimmed:
            after = trimmed.first_index - 1
            continue
        events += page.events
        if not page.events:
            return events
        after = page.events[-1]["index"]
