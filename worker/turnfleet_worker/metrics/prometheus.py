"""The meter that Prometheus asks. Its series live in a registry of their own; docs/how-to/monitoring.md lists them.

Reports come from the event loop and are answered in microseconds; what can be read when somebody asks is read then
(`scraped.py`), and costs a run nothing.
"""

import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import Concatenate, Final, ParamSpec

from prometheus_client import CollectorRegistry, Counter, Histogram
from typing_extensions import override

from turnfleet.store.commands.survey import Survey
from turnfleet.store.records import Claim, Swept
from turnfleet.store.transitions import PAUSED, TERMINAL_STATES
from turnfleet_kernel.contracts.values import UsageDelta
from turnfleet_worker.metrics.labels import Few
from turnfleet_worker.metrics.meter import Meter
from turnfleet_worker.metrics.scraped import FleetCollector
from turnfleet_worker.people import MILLISECONDS

__all__ = ["PrometheusMeter"]

MOST_PLANS: Final = 50
MOST_MODELS: Final = 50

_WAITS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_RUNS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_LAGS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_WHY: Final = {"new": "new", "paused": "resumed", "lost": "lost", "released": "handed_over", "failed": "retried"}

_log = logging.getLogger(__name__)
P = ParamSpec("P")


def _harmless(
    report: "Callable[Concatenate[PrometheusMeter, P], None]",
) -> "Callable[Concatenate[PrometheusMeter, P], None]":
    """Keep whatever goes wrong in a report away from the run that is reported on; the first of each kind is logged."""

    @wraps(report)
    def guarded(self: "PrometheusMeter", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            report(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 - a report has no business with what it reports on
            if report.__name__ not in self.broken:
                self.broken.add(report.__name__)
                _log.exception("the metric %s is not kept any more; runs are not concerned", report.__name__)

    return guarded


class PrometheusMeter(Meter):
    """Keeps what is reported, in `registry`, which is this worker's alone."""

    wants_survey = True

    def __init__(self, registry: CollectorRegistry, fleet: FleetCollector) -> None:
        self.broken: set[str] = set()
        self._fleet = fleet
        self._plans, self._models = Few(MOST_PLANS), Few(MOST_MODELS)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"turnfleet_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"turnfleet_{name}_seconds", text, labels, buckets=buckets, registry=registry)

        # The client library finds a labelled series under a lock, by a walk over its labels; here it is one look into a
        # dict. There are few labels, so there are few series to remember.
        self._claims = cache(counter("claims", "Runs that this worker took, by why they were queued.", "why").labels)
        self._claims_lost = counter("claims_lost", "Claims of this worker that another one had taken over.")
        self._leases_lost = counter("leases_lost", "Leases that ran out, as found by this worker's sweeps.")
        self._expired_decisions = counter("decisions_expired", "Interrupts that nobody decided in time.")
        self._ended = cache(counter("runs_ended", "Runs that this worker brought to an end.", "plan", "state").labels)
        self._pauses = cache(counter("pauses", "Runs that this worker let wait for people.", "plan").labels)
        self._turns = cache(counter("model_turns", "Model turns that were bought.", "model").labels)
        self._tokens = cache(
            counter("tokens", "Tokens of model turns; cached and reasoning ones are parts.", "model", "kind").labels
        )
        self._wait = histogram("queue_wait", "From when a run could be claimed to its claim.", _WAITS)
        self._run = cache(
            histogram("run", "Running time of runs that ended, pauses and queues left out.", _RUNS, "plan").labels
        )
        self._lag = histogram("event_lag", "From the oldest event of a batch to its acknowledgement.", _LAGS)

    @override
    @_harmless
    def claimed(self, claim: Claim) -> None:
        self._claims(_WHY[claim.previous]).inc()
        if claim.claimed_ms is not None and claim.ready_ms is not None:
            self._wait.observe(max(0, claim.claimed_ms - claim.ready_ms) / MILLISECONDS)

    @override
    @_harmless
    def left(self, claim: Claim, state: str, seconds: float) -> None:
        if state == "lost":
            self._claims_lost.inc()
            return
        plan = self._plans.label(str(claim.plan["name"]))
        if state in TERMINAL_STATES:
            self._ended(plan, state).inc()
            self._run(plan).observe(claim.ran_ms / MILLISECONDS + seconds)
        elif state == PAUSED:
            self._pauses(plan).inc()

    @override
    @_harmless
    def turn(self, model: str, usage: UsageDelta) -> None:
        label = self._models.label(model)
        self._turns(label).inc()
        for kind, count in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            if count:
                self._tokens(label, kind).inc(count)

    @override
    @_harmless
    def written(self, seconds: float) -> None:
        self._lag.observe(seconds)

    @override
    @_harmless
    def swept(self, swept: Swept) -> None:
        self._leases_lost.inc(swept.lost)
        self._expired_decisions.inc(swept.decided)
        for ended in swept.ended:
            self._ended(self._plans.label(ended.plan_name), ended.state).inc()

    @override
    @_harmless
    def surveyed(self, survey: Survey | None) -> None:
        self._fleet.survey(survey)
