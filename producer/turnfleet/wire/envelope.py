"""The envelope: the one keyword argument of `turnfleet.invoke`, versioned from the first day (DESIGN section 7).

Any Celery client in any language may send one: `envelope_schema()` is its published JSON Schema.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from turnfleet.errors import InvalidEnvelope
from turnfleet.store.keys import FLEET_PATTERN, ID_PATTERN, validate_id
from turnfleet.store.records import NewRun, Offer
from turnfleet.wire.broker import DEFAULT_PRIORITY, HIGHEST_PRIORITY, default_queue
from turnfleet.wire.limits import LATEST
from turnfleet.wire.request import RequestBody, request_digest
from turnfleet.wire.signing import KEY_NAME, SIGNATURE
from turnfleet.wire.versions import VERSIONS
from turnfleet_kernel.contracts.spec import PlanSpec, plan_id

VERSION: Final = VERSIONS.current
"""The envelope version that this release writes; which ones a worker serves, and how, stands in versions.py."""

_MILLISECONDS: Final = 1000
_UNKNOWN: Final = "0" * 64


def _told(pattern: str) -> Any:
    """Let the schema say the rule; the validator below it says it in our words."""
    return Field(json_schema_extra={"pattern": f"^{pattern}$"})


RunId = Annotated[str, AfterValidator(lambda value: validate_id("run id", value)), _told(ID_PATTERN)]
ThreadId = Annotated[str, AfterValidator(lambda value: validate_id("thread id", value)), _told(ID_PATTERN)]
Tenant = Annotated[str, AfterValidator(lambda value: validate_id("tenant", value)), _told(ID_PATTERN)]
FleetName = Annotated[str, AfterValidator(lambda value: validate_id("fleet name", value)), _told(FLEET_PATTERN)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_WIRE = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RunOptions(BaseModel):
    """How to queue a run. Times are Unix seconds; `deadline_seconds` is running time and overrides the plan's."""

    model_config = _WIRE

    queue: Annotated[str, Field(min_length=1, max_length=127)] | None = None
    priority: int = Field(default=DEFAULT_PRIORITY, ge=0, le=HIGHEST_PRIORITY, description="9 goes first")
    thread_id: ThreadId | None = None
    tenant: Tenant | None = None
    eta: float | None = Field(default=None, ge=0, le=LATEST)
    expires: float | None = Field(default=None, ge=0, le=LATEST)
    deadline_seconds: float | None = Field(default=None, gt=0)
    metadata: dict[str, JsonValue] = {}


class Envelope(BaseModel):
    """One message of a fleet: "look at run R", and, in a run's first message, what R is.

    `recorded` says that the run's record was written before this message: if it is gone, so is the run. A foreign
    client leaves it out; its first claim then writes the record. It may leave out `plan_id` and `digest`, too: both
    are worked out from the plan and the request, and must fit them when given.
    """

    model_config = _WIRE

    v: Literal[1] = 1
    fleet: FleetName
    run_id: RunId
    recorded: bool = False
    plan: PlanSpec | None = None
    plan_id: Sha256
    request: RequestBody | None = None
    digest: Sha256
    options: RunOptions = RunOptions()
    kid: str | None = Field(default=None, pattern=KEY_NAME, description="which key signed")
    sig: str | None = Field(default=None, pattern=SIGNATURE, description="HMAC-SHA256, see docs/security.md")

    @model_validator(mode="before")
    @classmethod
    def _work_out_digests(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("plan") is None or value.get("request") is None:
            return value
        try:
            plan = PlanSpec.model_validate(value["plan"])
            request = RequestBody.model_validate(value["request"])
        except ValidationError:
            # The fields' own validation, which comes next, says the same with its place in the envelope.
            return {"plan_id": _UNKNOWN, "digest": _UNKNOWN, **value}
        identity = plan_id(plan)
        digest = request_digest(identity, request.to_json())
        if value.get("plan_id", identity) != identity:
            raise ValueError("plan_id is not the SHA-256 of the plan")
        if value.get("digest", digest) != digest:
            raise ValueError("digest is not the SHA-256 of plan_id and request")
        return {**value, "plan": plan, "plan_id": identity, "request": request, "digest": digest}

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.plan is None) != (self.request is None):
            raise ValueError("plan and request come together or not at all")
        if self.plan is None and not self.recorded:
            raise ValueError("a message without plan and request must say recorded=true")
        if (self.kid is None) != (self.sig is None):
            raise ValueError("kid and sig come together or not at all")
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that travels; what equals its default is left out, the version never."""
        return {"v": self.v, **self.model_dump(mode="json", exclude_defaults=True)}


def parse_envelope(value: object, *, whole: bool = True) -> Envelope:
    """Read an envelope. Raises `InvalidEnvelope` saying which field does not fit and why, never what it holds.

    `whole=False` leaves the plan and the request of a recorded run unread: they are what its record says.
    """
    try:
        current = VERSIONS.read(value) if isinstance(value, Mapping) else value
        return Envelope.model_validate(current if whole else _named(current))
    except ValidationError as error:
        raise InvalidEnvelope(f"not a turnfleet envelope: {explain(error)}") from None


def _named(value: object) -> object:
    if not isinstance(value, Mapping) or value.get("recorded") is not True or not {"plan_id", "digest"} <= value.keys():
        return value
    return {name: each for name, each in value.items() if name not in {"plan", "request"}}


def explain(error: ValidationError) -> str:
    """Say what does not fit: each place and its rule. The values stay out, they may be a user's."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'envelope'}: {each['msg']}" for each in problems[:5])


def new_run(envelope: Envelope, *, held: bool = False, trace: str | None = None) -> NewRun:
    """Return the record to be of a first message. `held`: it waits for its thread. `trace`: see `trace_context`.

    Raises `InvalidEnvelope` for a message that carries no plan and request.
    """
    if envelope.plan is None or envelope.request is None:
        raise InvalidEnvelope(f"the message for run {envelope.run_id!r} carries no plan and request to record")
    options = envelope.options
    return NewRun(
        run_id=envelope.run_id,
        plan=envelope.plan.model_dump(mode="json", exclude_defaults=True),
        plan_id=envelope.plan_id,
        request=envelope.request.to_json(),
        digest=envelope.digest,
        queue=options.queue or default_queue(envelope.fleet),
        priority=options.priority,
        thread_id=options.thread_id,
        tenant=options.tenant,
        eta_ms=_milliseconds(options.eta),
        expires_ms=_milliseconds(options.expires),
        deadline_seconds=options.deadline_seconds,
        metadata=options.metadata,
        held=held,
        recorded=envelope.recorded,
        kid=envelope.kid,
        sig=envelope.sig,
        trace=trace,
    )


def first_offer(run: NewRun) -> Offer:
    """Return message number 1 of a run that was just recorded."""
    return Offer(
        run_id=run.run_id,
        number=1,
        queue=run.queue,
        priority=run.priority,
        thread_id=run.thread_id,
        plan_id=run.plan_id,
        digest=run.digest,
        plan_name=run.plan["name"],
        trace=run.trace,
    )


def reoffer(fleet: str, offer: Offer) -> Envelope:
    """Return the envelope of a message about a run whose record holds plan and request."""
    return Envelope(
        fleet=fleet,
        run_id=offer.run_id,
        recorded=True,
        plan_id=offer.plan_id,
        digest=offer.digest,
        options=RunOptions(queue=offer.queue, priority=offer.priority, thread_id=offer.thread_id),
    )


class _SchemaGenerator(GenerateJsonSchema):
    # A frozen dict is no default that pydantic can write into a schema; the field stays optional without it.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - declared so by its base


def envelope_schema() -> dict[str, Any]:
    """Return the JSON Schema of a message that a client of any language may send."""
    schema = Envelope.model_json_schema(schema_generator=_SchemaGenerator)
    # Worked out by the worker when they are left out, which a plain schema cannot say.
    schema["required"] = [name for name in schema["required"] if name not in {"plan_id", "digest"}]
    return schema


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _MILLISECONDS)
