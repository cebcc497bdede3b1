"""Ending a claimed run that must not be run, before anything of it was looked at."""

import logging
import time

from turnfleet.errors import BadSignature, ClaimLost
from turnfleet.store import commands
from turnfleet.store.records import Claim, Ending
from turnfleet_worker.ending import Left
from turnfleet_worker.persistence import persist
from turnfleet_worker.workbench import Bench

_log = logging.getLogger(__name__)


async def refuse(bench: Bench, claim: Claim, error: BadSignature) -> Left:
    """End the run as failed, with the reason. A retry looks at it again: the key may be back by then."""
    _log.error("refused to run what is in the record: %s", error)
    said = f"{type(error).__name__}: {error}"
    event = {"run_id": claim.run_id, "index": claim.next_index, "kind": "error", "time": time.time(), "error": said}
    ending = Ending(state="failed", event=event, error=said)
    try:
        ended = await persist(
            bench.executor,
            commands.finish(bench.keys, claim.ref, seq=claim.seq + 1, ending=ending, ttl_ms=bench.ttl_ms),
        )
    except ClaimLost:
        return Left("lost")
    return Left(ended.state, error=error if ended.state == "failed" else None)
