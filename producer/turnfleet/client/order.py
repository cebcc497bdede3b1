"""From what a caller typed to what is sent: reading and checking options, without a question to anybody."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Required, TypeAlias, TypedDict, Unpack, get_args

from pydantic import ValidationError

from turnfleet.client.given import adapter_of, json_schema
from turnfleet.client.moments import Moment, Span, at, seconds_of, unix_of
from turnfleet.errors import InvalidEnvelope
from turnfleet.ids import new_id
from turnfleet.store import validate_id
from turnfleet.wire import Envelope, RequestBody, RunOptions
from turnfleet.wire.broker import DEFAULT_PRIORITY
from turnfleet.wire.envelope import explain
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.contracts.values import TurnRequest

PlanLike: TypeAlias = PlanSpec | Mapping[str, Any]
RequestLike: TypeAlias = str | TurnRequest
DoubleText: TypeAlias = Literal["enqueue", "reject", "interrupt"]


class EnqueueOptions(TypedDict, total=False):
    """What `enqueue` takes beside plan and request.

    `run_id`: the run's name, and what makes enqueueing again safe; made up when absent. `thread_id`: runs of one
    thread run one after another, and `double_text` says what happens while another is in front. `priority`: 0 to 9,
    9 first. `countdown` (seconds or timedelta) or `eta` (aware datetime): not before. `expires`: the run's whole
    life, as seconds, timedelta or aware datetime. `queue`: a Celery queue of your own. `deadline_seconds`: running
    time, overrides the plan's. `metadata`: JSON labels, kept with the run and no part of its identity.
    """

    run_id: str | None
    thread_id: str | None
    tenant: str | None
    priority: int
    countdown: Span | None
    eta: datetime | None
    expires: Moment | None
    queue: str | None
    deadline_seconds: float | None
    double_text: DoubleText
    metadata: Mapping[str, Any]


class EnqueueItem(EnqueueOptions, total=False):
    """One entry of `enqueue_many`: the arguments of `enqueue`, by name."""

    plan: Required[PlanLike]
    request: Required[RequestLike]
    output: type[Any] | None


_PAIR: Final = 2
Item: TypeAlias = tuple[PlanLike, RequestLike] | EnqueueItem


@dataclass(frozen=True, slots=True)
class Order:
    """A checked wish: everything but the fleet's time, from which spans count."""

    run_id: str
    plan: PlanSpec
    request: RequestBody
    options: RunOptions
    output: Any
    double_text: DoubleText
    countdown: Span | None
    expires: Moment | None

    @property
    def needs_clock(self) -> bool:
        """Whether a span counts from the fleet's now."""
        return self.countdown is not None or (self.expires is not None and not isinstance(self.expires, datetime))

    def envelope(self, fleet: str, now: float) -> Envelope:
        """Return the first message. `now`: Unix seconds by the fleet's clock; unused unless `needs_clock`."""
        times = {
            "eta": self.options.eta if self.countdown is None else at("countdown", self.countdown, now),
            "expires": None if self.expires is None else at("expires", self.expires, now),
        }
        # Without its digests: reading it works them out, and would check them by working them out again.
        return Envelope.model_validate(
            {
                "fleet": fleet,
                "run_id": self.run_id,
                "recorded": True,
                "plan": self.plan,
                "request": self.request,
                "options": self.options.model_copy(update=times),
            }
        )


def read_item(item: Item) -> Order:
    """Read one entry of `enqueue_many`: a pair (plan, request), or a mapping of `enqueue`'s arguments."""
    given: object = item  # a caller without a type checker may hand in anything
    if isinstance(item, Mapping):
        if missing := [name for name in ("plan", "request") if name not in item]:
            raise InvalidEnvelope(f"an item of enqueue_many lacks {' and '.join(missing)}")
        return read_order(**item)
    if not isinstance(given, tuple | list) or len(given) != _PAIR:
        raise InvalidEnvelope(
            "an item of enqueue_many is a pair (plan, request), or a mapping of enqueue's arguments: "
            "{'plan': plan, 'request': 'hi', 'priority': 9}"
        )
    plan, request = item
    return read_order(plan, request)


def read_order(
    plan: PlanLike, request: RequestLike, *, output: type[Any] | None = None, **options: Unpack[EnqueueOptions]
) -> Order:
    """Check what `enqueue` was given.

    Raises `InvalidId` for an id that keys cannot carry, and `InvalidEnvelope`, naming each field, for what else
    cannot be sent; TypeError for an option that there is not, and an output that is no type. Neither shows a prompt.
    """
    if unknown := sorted(set(options) - set(EnqueueOptions.__annotations__)):
        known = ", ".join(sorted({*EnqueueOptions.__annotations__, "output"}))
        raise TypeError(f"enqueue takes no {', '.join(unknown)}; its options are {known}")
    return _read(plan, request, output=output, **options)


def _read(
    plan: PlanLike,
    request: RequestLike,
    *,
    output: type[Any] | None = None,
    run_id: str | None = None,
    thread_id: str | None = None,
    tenant: str | None = None,
    priority: int = DEFAULT_PRIORITY,
    countdown: Span | None = None,
    eta: datetime | None = None,
    expires: Moment | None = None,
    queue: str | None = None,
    deadline_seconds: float | None = None,
    double_text: DoubleText = "enqueue",
    metadata: Mapping[str, Any] | None = None,
) -> Order:
    run_id = _run_id(run_id, request)
    if thread_id is not None:
        validate_id("thread id", thread_id)
    if tenant is not None:
        validate_id("tenant", tenant)
    if double_text not in get_args(DoubleText):
        raise InvalidEnvelope(f"double_text is one of {', '.join(get_args(DoubleText))}, not {double_text!r}")
    if countdown is not None:
        if eta is not None:
            raise InvalidEnvelope("countdown and eta say the same thing: give one of them")
        seconds_of("countdown", countdown)
    if expires is not None:
        at("expires", expires, 0.0)
    try:
        return Order(
            run_id=run_id,
            plan=_plan(plan, output),
            request=_request(request),
            options=RunOptions.model_validate(
                {
                    "queue": queue,
                    "priority": priority,
                    "thread_id": thread_id,
                    "tenant": tenant,
                    "eta": None if eta is None else unix_of("eta", eta),
                    "deadline_seconds": deadline_seconds,
                    "metadata": plain_json(metadata or {}, "metadata"),
                },
                strict=True,  # "9" and True could be read as numbers, and are none
            ),
            output=output,
            double_text=double_text,
            countdown=countdown,
            expires=expires,
        )
    except ValidationError as error:
        raise InvalidEnvelope(f"run {run_id!r} cannot be enqueued: {explain(error)}") from None
    except ValueError as error:
        raise InvalidEnvelope(f"run {run_id!r} cannot be enqueued: {error}") from None


def _run_id(run_id: str | None, request: RequestLike) -> str:
    named = request.run_id if isinstance(request, TurnRequest) else None
    if run_id is not None and named is not None and run_id != named:
        raise InvalidEnvelope(
            f"the request names run {named[:80]!r} and run_id= names {run_id[:80]!r}: give one of them"
        )
    chosen = run_id if run_id is not None else named
    return new_id() if chosen is None else validate_id("run id", chosen)


def _plan(plan: PlanLike, output: Any) -> PlanSpec:
    if not isinstance(plan, PlanSpec | Mapping):
        raise InvalidEnvelope(f"a plan is a PlanSpec, or a mapping of its fields, not a {type(plan).__name__}")
    reader = None if output is None else adapter_of(output)
    spec = plan if isinstance(plan, PlanSpec) else PlanSpec.model_validate(plan)
    if reader is None or spec.response is not None:
        return spec
    # Validated anew: model_copy would leave the schema unfrozen.
    schema = json_schema(reader)
    return PlanSpec.model_validate({**spec.model_dump(), "response": schema})


def _request(request: RequestLike) -> RequestBody:
    if isinstance(request, str):
        return RequestBody.of(TurnRequest(request))
    if not isinstance(request, TurnRequest):
        raise InvalidEnvelope(f"a request is a prompt (str) or a TurnRequest, not a {type(request).__name__}")
    if request.decisions:
        raise InvalidEnvelope(
            "a request that is enqueued carries no decisions: decide with run.resume() when it pauses"
        )
    return RequestBody.of(request)
