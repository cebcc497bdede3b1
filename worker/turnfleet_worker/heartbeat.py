"""Keeps this process's claims alive, from a thread of its own: a tool that blocks the event loop loses no lease.

Claims are renewed in one command a shard. What a beat learns (the claim is lost, a cancel was asked for, the
run's life is over) is handed to `verdict`, which must be quick and safe to call from this thread.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from turnfleet.errors import TurnfleetError
from turnfleet.store import Keys
from turnfleet.store.commands import beat
from turnfleet.store.executor import SyncExecutor
from turnfleet.store.records import Beat, ClaimRef

STOP_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Heartbeat:
    """Renews the leases of a process's claims every `every_seconds`.

    An unreachable store is no verdict: a lease that expired and that nobody took is renewed when it is back.
    """

    def __init__(
        self,
        executor: SyncExecutor,
        keys: Keys,
        *,
        lease_ms: int,
        every_seconds: float,
        verdict: Callable[[ClaimRef, Beat], None],
    ) -> None:
        self._executor = executor
        self._keys = keys
        self._lease_ms = lease_ms
        self._every = every_seconds
        self._verdict = verdict
        self._claims: dict[str, ClaimRef] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnfleet-heartbeat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def stop(self) -> None:
        """Stop beating, and wait for a beat under way (at most `STOP_SECONDS`)."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._executor.close()

    def add(self, claim: ClaimRef) -> None:
        """Keep this claim alive from now on."""
        self._claims[claim.claim_id] = claim

    def remove(self, claim: ClaimRef) -> None:
        """Let this claim go; unknown claims are none of our business."""
        self._claims.pop(claim.claim_id, None)

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            self.beat_once()

    def beat_once(self) -> None:
        """Renew every claim now."""
        shards: defaultdict[int, list[ClaimRef]] = defaultdict(list)
        for claim in list(self._claims.values()):
            shards[self._keys.shard(claim.run_id)].append(claim)
        # All at once: a node of a cluster that is away must not keep the claims at the others from being renewed.
        commands = [beat(self._keys, claims, lease_ms=self._lease_ms) for claims in shards.values()]
        unheard: TurnfleetError | None = None
        for claims, beats in zip(shards.values(), self._executor.execute_many(commands), strict=True):
            if isinstance(beats, TurnfleetError):
                unheard = beats
                continue
            for claim in claims:
                if claim.claim_id in self._claims:
                    self._verdict(claim, beats[claim.run_id])
        if unheard is not None:
            _log.warning("the run store does not answer a heartbeat (%s); the next one tries again", unheard)
