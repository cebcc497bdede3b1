"""The meter by itself: few labels, no harm, and where it is served."""

import logging

import pytest
from prometheus_client import Counter, generate_latest
from support.ports import free_port
from support.scraping import Scrape, scrape

from turnfleet.store.commands.survey import Survey
from turnfleet.store.records import Claim, EndedRun, Swept
from turnfleet.store.transitions import STATES
from turnfleet_kernel.contracts.values import UsageDelta
from turnfleet_worker import WorkerSettings
from turnfleet_worker.errors import SettingError
from turnfleet_worker.metrics.endpoint import Endpoint, Place, metrics_place
from turnfleet_worker.metrics.labels import OTHERS, Few
from turnfleet_worker.metrics.prometheus import PrometheusMeter
from turnfleet_worker.metrics.scraped import STALE_SECONDS, FleetCollector, OwnRegistry
from turnfleet_worker.rate import WINDOW_SECONDS, Rate


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        """Tell it."""
        return self.now


class Metered:
    """A meter with its registry and clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.registry = OwnRegistry()
        fleet = FleetCollector(self.clock)
        self.registry.register(fleet)
        self.meter = PrometheusMeter(self.registry, fleet)

    def read(self) -> Scrape:
        """Read it as Prometheus would."""
        return Scrape(generate_latest(self.registry).decode())


@pytest.fixture
def metered() -> Metered:
    """Give a meter of this test's own."""
    return Metered()


def a_claim(plan: str = "support", **changes: object) -> Claim:
    """Give a claim as the store would."""
    facts: dict[str, object] = {
        "run_id": "run", "claim_id": "c", "attempt": 1, "losses": 0, "previous": "new", "plan": {"name": plan},
        "plan_id": "p", "request": {}, "digest": "d", "queue": "q", "priority": 5, "thread_id": None, "tenant": None,
        "deadline_seconds": None, "expires_ms": None, "created_ms": 0, "ready_ms": 1_000, "claimed_ms": 3_500,
        "journal": (), "next_index": 0, "seq": 0, "ran_ms": 1_500, "cancel": None, "metadata": {},
    }  # fmt: skip
    return Claim(**facts | changes)  # type: ignore[arg-type]


def swept(**changes: object) -> Swept:
    """Give what a sweep that found nothing tells."""
    nothing: dict[str, object] = {"offers": (), "ended": (), "lost": 0, "expired": 0, "failed": 0, "decided": 0}
    return Swept(**{**nothing, "more": False, "now_ms": 0, "late": False, **changes})  # type: ignore[arg-type]


def test_labels_stay_few_however_many_plans_there_are(metered: Metered) -> None:
    """Plan names are a user's data: after the first fifty they share a label, and each is cut."""
    for number in range(60):
        metered.meter.left(a_claim(f"plan-{number}"), "completed", 1.0)
    metered.meter.left(a_claim("plan-0"), "completed", 1.0)
    seen = metered.read()
    ended = {key: value for key, value in seen.samples.items() if key[0] == "turnfleet_runs_ended_total"}
    assert len(ended) == 51
    assert seen["turnfleet_runs_ended_total", f"plan={OTHERS}", "state=completed"] == 10
    assert seen["turnfleet_runs_ended_total", "plan=plan-0", "state=completed"] == 2
    assert Few(1).label("x" * 500) == "x" * 80


def test_times_are_seconds(metered: Metered) -> None:
    """The store counts milliseconds; running time is that of all claims of the run."""
    metered.meter.claimed(a_claim())
    metered.meter.left(a_claim(), "failed", 2.0)
    seen = metered.read()
    assert seen["turnfleet_queue_wait_seconds_sum"] == 2.5
    assert seen["turnfleet_run_seconds_sum", "plan=support"] == 3.5


def test_a_run_that_an_earlier_release_queued_has_no_wait(metered: Metered) -> None:
    """Its record does not say since when it could be claimed."""
    metered.meter.claimed(a_claim(ready_ms=None))
    assert metered.read()["turnfleet_queue_wait_seconds_count"] == 0


def test_a_lost_claim_ends_no_run(metered: Metered) -> None:
    """Another worker has the run: its end is counted there."""
    metered.meter.left(a_claim(), "lost", 1.0)
    seen = metered.read()
    assert seen["turnfleet_claims_lost_total"] == 1
    assert not [key for key in seen.samples if key[0] == "turnfleet_runs_ended_total"]


def test_kinds_of_tokens_are_counted_apart(metered: Metered) -> None:
    """Kinds that a model does not have make no series."""
    metered.meter.turn("small", UsageDelta(10, 2, 1, cache_read_tokens=4, reasoning_tokens=1))
    tokens = {key[1]: value for key, value in metered.read().samples.items() if key[0] == "turnfleet_tokens_total"}
    assert tokens == {"kind=input": 10, "kind=output": 2, "kind=cache_read": 4, "kind=reasoning": 1}


def test_runs_that_the_sweep_ends_are_counted_by_plan(metered: Metered) -> None:
    """Dead letters and expired runs have no worker that would."""
    metered.meter.swept(swept(ended=(EndedRun("run", "failed", None, "support"),), lost=2, decided=3))
    seen = metered.read()
    assert seen["turnfleet_runs_ended_total", "plan=support", "state=failed"] == 1
    assert (seen["turnfleet_leases_lost_total"], seen["turnfleet_decisions_expired_total"]) == (2, 3)


def test_only_who_sweeps_tells_of_the_fleet_and_only_what_is_of_now(metered: Metered) -> None:
    """A worker that sweeps no longer, or gets no answer, must not go on showing an old picture."""
    survey = Survey(
        now_ms=9_000, counts={**dict.fromkeys(STATES, 0), "paused": 2}, overdue_count=1, overdue=(), queued=(),
        parked=(), waiting=(), failed=(),
    )  # fmt: skip

    def another_sweeps() -> None:
        metered.meter.surveyed(None)

    def no_answer_comes() -> None:
        metered.clock.now += STALE_SECONDS + 1

    for happens in (another_sweeps, no_answer_comes):
        metered.clock.now = 100.0
        metered.meter.surveyed(survey)
        seen = metered.read()
        assert (seen["turnfleet_runs", "state=paused"], seen["turnfleet_runs_overdue"]) == (2, 1)
        happens()
        assert not [key for key in metered.read().samples if key[0].startswith("turnfleet_runs")]


def test_a_metric_that_breaks_harms_nothing_and_says_so_once(
    metered: Metered, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run that is reported on never hears of it."""

    def broken(*_: object) -> Counter:
        raise RuntimeError("out of order")

    monkeypatch.setattr(metered.meter, "_claims", broken)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            metered.meter.claimed(a_claim())
    assert [record.getMessage() for record in caplog.records] == [
        "the metric claimed is not kept any more; runs are not concerned"
    ]


def test_an_endpoint_serves_until_it_is_stopped(metered: Metered) -> None:
    """Afterwards its port is free; port 0 is any free one, which it knows."""
    port = free_port()
    for _ in range(2):
        endpoint = Endpoint(metered.registry, Place("127.0.0.1", port))
        endpoint.start()
        assert endpoint.where == f"127.0.0.1:{port}"
        assert scrape(endpoint.where)["turnfleet_claims_lost_total"] == 0
        endpoint.stop()
        assert endpoint.where is None
    anywhere = Endpoint(metered.registry, Place("127.0.0.1", 0))
    anywhere.start()
    assert anywhere.where is not None
    assert scrape(anywhere.where)["turnfleet_claims_lost_total"] == 0
    anywhere.stop()


@pytest.mark.parametrize(
    ("port", "environment", "place"),
    [
        (None, {}, None),
        (9464, {}, Place("127.0.0.1", 9464)),
        (9464, {"TURNFLEET_METRICS_PORT": "0"}, Place("127.0.0.1", 0)),
        (None, {"TURNFLEET_METRICS_PORT": "9", "TURNFLEET_METRICS_ADDRESS": "0.0.0.0"}, Place("0.0.0.0", 9)),  # noqa: S104
        (None, {"TURNFLEET_METRICS_PORT": ""}, None),
    ],
)
def test_the_environment_of_a_process_overrides_the_settings(
    port: int | None, environment: dict[str, str], place: Place | None
) -> None:
    """Workers of one machine share their settings and need ports of their own."""
    assert metrics_place(WorkerSettings(metrics_port=port), environment) == place


@pytest.mark.parametrize("port", ["http", "-1", "65536", "9464 ", "1e3"])
def test_a_port_that_is_none_is_refused_by_name(port: str) -> None:
    """The worker does not start, and says which variable to look at."""
    with pytest.raises(SettingError, match="TURNFLEET_METRICS_PORT"):
        metrics_place(WorkerSettings(), {"TURNFLEET_METRICS_PORT": port})


def test_a_rate_is_that_of_the_last_half_minute() -> None:
    """And of the time since the beginning, while that is shorter."""
    clock = Clock()
    rate = Rate(clock)
    clock.now += 10
    for _ in range(20):
        rate.tick()
    assert rate.per_second() == 2.0
    clock.now += WINDOW_SECONDS
    rate.tick()
    assert rate.per_second() == 1 / WINDOW_SECONDS
