"""The line of runs of one thread. It lies in the thread's shard, apart from its runs."""

from turnfleet.store.command import Command, Reply, args, header, text
from turnfleet.store.keys import Keys, validate_id


def _on_thread(keys: Keys, action: str, thread_id: str, run_id: str | None) -> tuple[str, tuple[bytes, ...]]:
    validate_id("thread id", thread_id)
    return keys.prefix(keys.shard(thread_id)), (*header(keys), *args(action, thread_id, run_id))


def thread_join(keys: Keys, thread_id: str, run_id: str) -> Command[int]:
    """Join the line at its end, once; give the run's place in it. 0: it is its turn."""
    key, arguments = _on_thread(keys, "join", thread_id, run_id)
    return Command("thread", key, arguments, lambda reply: int(reply[0]), run_id)


def thread_head(keys: Keys, thread_id: str) -> Command[str | None]:
    """Give the run whose turn it is, or None."""
    key, arguments = _on_thread(keys, "head", thread_id, None)
    return Command("thread", key, arguments, _head)


def thread_in_front(keys: Keys, thread_id: str, run_id: str) -> Command[tuple[str, ...]]:
    """Give the runs in front of one in its line, in the order of their turns; none if it is not in it."""
    key, arguments = _on_thread(keys, "front", thread_id, run_id)
    return Command("thread", key, arguments, lambda reply: tuple(run.decode() for run in reply[2]), run_id)


def thread_leave(keys: Keys, thread_id: str, run_id: str) -> Command[str | None]:
    """Leave the line (or not: it may have left before); give the run whose turn it is then, or None."""
    key, arguments = _on_thread(keys, "leave", thread_id, run_id)
    return Command("thread", key, arguments, _head, run_id)


def _head(reply: Reply) -> str | None:
    return text(reply[1])
