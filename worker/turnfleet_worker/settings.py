"""What an operator may turn: every duration and limit of a worker, with what makes no sense refused by name."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class WorkerSettings(BaseModel):
    """Settings of one worker process; times in seconds. Raises pydantic's `ValidationError` with the reason.

    lease_seconds: how long a claim lives without a heartbeat; a run of a killed worker waits about this long.
    heartbeat_seconds: how often a claim is renewed; less than half a lease, so that one lost beat loses no run.
    sweep_seconds: how often this process offers to sweep (expired leases, lost messages, what is due).
    max_attempts: lease losses without progress after which a run fails as a dead letter.
    drain_seconds: how long a SIGTERM waits for runs to reach a point where they can be handed over.
    reoffer_after_seconds: how old a queued run's offer is when the sweep first publishes it again.
    retention_seconds: how long a run that ended is remembered.
    event_log_batches: how many event batches a run's log keeps.
    shards: how many slots the fleet's keys are spread over; the same for every producer and worker of the fleet.
    visibility_seconds: how long the broker waits for the acknowledgement of a message whose worker died before it
        claimed the run. It never covers running work: a message is acknowledged as soon as its run is claimed.
    plain_task_threads: threads for the user's own Celery tasks, those that are not turnfleet's.
    metrics_port: where this process serves its metrics for Prometheus; 0 is any free port (the announcement says
        which), None serves none. TURNFLEET_METRICS_PORT in the environment overrides it: a port for each process.
    metrics_address: the address for that; whoever reaches it reads them. TURNFLEET_METRICS_ADDRESS overrides it.
    log_format: "text", or "json" for one object a line; TURNFLEET_LOG_FORMAT overrides it.
    show_content: show the beginning of prompts, what waits for a decision, answers, and providers' own errors in
        Celery's events and log, and so in Flower. Whoever reads the broker then reads them, too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lease_seconds: Seconds = 10.0
    heartbeat_seconds: Seconds = 3.0
    sweep_seconds: Seconds = 2.0
    max_attempts: Count = 5
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20.0
    reoffer_after_seconds: Seconds = 10.0
    retention_seconds: Seconds = 86_400.0
    event_log_batches: Count = 10_000
    shards: Annotated[int, Field(ge=1, le=16_384)] = 16
    visibility_seconds: Seconds = 120.0
    plain_task_threads: Count = 4
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    metrics_address: str = "127.0.0.1"
    log_format: Literal["text", "json"] = "text"
    show_content: bool = False

    @model_validator(mode="after")
    def _refuse_nonsense(self) -> Self:
        if self.heartbeat_seconds >= self.lease_seconds / 2:
            raise ValueError(
                f"heartbeat_seconds={self.heartbeat_seconds:g} must be less than half of "
                f"lease_seconds={self.lease_seconds:g}: one heartbeat that comes late would lose the run"
            )
        if self.sweep_seconds > self.lease_seconds:
            raise ValueError(
                f"sweep_seconds={self.sweep_seconds:g} must not exceed lease_seconds={self.lease_seconds:g}: "
                "runs of a killed worker would wait for the sweep, not for the lease"
            )
        if self.reoffer_after_seconds < self.sweep_seconds:
            raise ValueError(
                f"reoffer_after_seconds={self.reoffer_after_seconds:g} must be at least "
                f"sweep_seconds={self.sweep_seconds:g}: every sweep would publish the whole backlog again"
            )
        if self.visibility_seconds < self.lease_seconds:
            raise ValueError(
                f"visibility_seconds={self.visibility_seconds:g} must be at least "
                f"lease_seconds={self.lease_seconds:g}: "
                "the broker would deliver messages again while their run is being claimed"
            )
        return self
