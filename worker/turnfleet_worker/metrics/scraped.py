"""What is read at the moment of a scrape: how the process stands, and how the fleet stood at the last sweep."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from turnfleet.store.commands.survey import Survey
from turnfleet.store.transitions import STATES, TERMINAL_STATES
from turnfleet_worker.people import MILLISECONDS

__all__ = ["FleetCollector", "OwnRegistry", "ProcessCollector"]

WAITING_STATES: Final = tuple(state for state in STATES if state not in TERMINAL_STATES)
STALE_SECONDS: Final = 30.0
"""A survey that is older is shown no longer: this worker sweeps, but the store does not answer."""


class OwnRegistry(CollectorRegistry):
    """A registry without the time of creation that the client library adds to each counter as a series of its own."""

    @override
    def collect(self) -> Iterator[Metric]:
        """Give each metric with its samples."""
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class ProcessCollector(Collector):
    """The process's own state. `info` is what `inspect stats` shows of it, `version` that of turnfleet."""

    def __init__(self, info: Callable[[], Mapping[str, Any]], version: str) -> None:
        self._info = info
        self._version = version

    @override
    def collect(self) -> Iterator[Metric]:
        """Read it."""
        info = self._info()
        yield InfoMetricFamily("turnfleet_build", "What this worker runs.", {"version": self._version})
        for name, text, value in (
            ("runs_in_flight", "Runs that this worker works on.", info.get("runs", 0)),
            ("slots", "How many runs this worker takes at once.", info.get("limit", 0)),
            ("draining", "1 while the worker is on its way out.", int(info.get("draining", False))),
            ("event_loop_lag_seconds", "How late the event loop last woke.", info.get("loop-lag-seconds", 0)),
            ("event_loop_worst_lag_seconds", "The latest that it ever woke.", info.get("worst-loop-lag-seconds", 0)),
        ):
            yield GaugeMetricFamily(f"turnfleet_{name}", text, value)
        messages = CounterMetricFamily("turnfleet_messages", "Messages, by what became of them.", labels=["outcome"])
        for outcome, count in info.get("messages", {}).items():
            messages.add_metric([outcome.replace(" ", "_")], count)
        for reason, count in info.get("refused", {}).items():
            messages.add_metric([f"refused_{reason}"], count)
        yield messages


class FleetCollector(Collector):
    """How the fleet stands, on the one worker that sweeps: elsewhere, and once that is over, nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: tuple[float, Survey] | None = None

    def survey(self, survey: Survey | None) -> None:
        """Take what the sweep was told; None when another worker sweeps."""
        self._told = None if survey is None else (self._clock(), survey)

    @override
    def collect(self) -> Iterator[Metric]:
        """Give the last survey, if it is of now."""
        told = self._told
        if told is None or self._clock() - told[0] > STALE_SECONDS:
            return
        at, survey = told
        runs = GaugeMetricFamily("turnfleet_runs", "Runs of the fleet that have not ended.", labels=["state"])
        for state in WAITING_STATES:
            runs.add_metric([state], survey.counts[state])
        yield runs
        yield GaugeMetricFamily(
            "turnfleet_runs_overdue", "Runs that nobody looked at when they were due.", survey.overdue_count
        )
        oldest = (survey.now_ms - survey.waiting[0].at_ms) / MILLISECONDS + self._clock() - at if survey.waiting else 0
        yield GaugeMetricFamily("turnfleet_oldest_pause_age_seconds", "How long the longest pause lasts.", oldest)
