"""What a fleet's owner registers: names, policies, and errors while it is still cheap to correct them."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any, cast

import pytest
from pydantic_ai.models.test import TestModel

from turnfleet_kernel.compile import compile_plan
from turnfleet_kernel.contracts.interrupts import Answer, Approve, Edit, Reject, Retry
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.contracts.stages import Phase, Stage
from turnfleet_kernel.contracts.values import ModelTurn, ToolRequest
from turnfleet_kernel.errors import PlanError
from turnfleet_worker.errors import RegistrationError, ResponseError
from turnfleet_worker.models.pydantic_ai import PydanticAIModel
from turnfleet_worker.models.response import JsonResponse
from turnfleet_worker.policy import ToolPolicy
from turnfleet_worker.registry import Registry


class Echo:
    """A model port that says one word."""

    async def invoke(self, transcript: Any) -> ModelTurn:
        """Say it."""
        return ModelTurn("echo")

    def stream(self, transcript: Any) -> Any:
        """Never asked here."""
        raise AssertionError


def plan(**more: Any) -> PlanSpec:
    """Make a plan called p; stages as JSON has them."""
    return PlanSpec.model_validate({"name": "p", "model": "m", **more})


def make_stage(settings: Any) -> Stage:
    """Make a stage that does nothing."""
    return Stage("s", Phase.FINALIZE, nothing)


def nothing(argument: Any) -> None:
    """Stand in for a handler, or for a function that finds out nothing."""


def refund(order_id: str, amount: float = 10.0) -> str:
    """Refund an order."""
    return f"{order_id}: {amount}"


def test_a_decorated_function_stays_callable() -> None:
    """With or without options: tests of a tool need no registry."""
    registry = Registry()

    @registry.tool
    def one() -> int:
        return 1

    @registry.tool(idempotent=True)
    def two() -> int:
        return 2

    assert (one(), two()) == (1, 2)
    assert registry.known_names()["tool"] == {"ask", "one", "two"}


def test_options_count_also_without_decorator_syntax() -> None:
    """An approval that was asked for is never dropped."""
    registry = Registry()
    registry.tool(refund, approval=True, name="pay_back")
    policy = registry.policy("pay_back")
    assert policy is not None
    assert policy.approval is True


def test_the_policy_is_readable() -> None:
    """What the worker's host needs to know of a tool stands in one value."""
    registry = Registry()
    late = Reject("nobody decided")
    registry.tool(approval=True, roles=("finance",), expires_in=60, on_expiry=late)(refund)
    policy = registry.policy("refund")
    assert policy is not None
    assert policy == ToolPolicy(
        tool="refund",
        approval=True,
        roles=("finance",),
        expires_in=60,
        on_expiry=late,
        schema=policy.schema,
        digest=policy.digest,
    )
    assert policy.schema == registry.bind_tools(plan(tools=("refund",))).schema("refund")
    assert registry.policy("nonsense") is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"approval": "yes"}, "approval must be True, False or a predicate"),
        ({"approval": lambda: True}, "approval must be True, False or a predicate"),
        ({"idempotent": "no"}, "idempotent='no' must be True or False"),
        ({"approval": True, "expires_in": True}, "must be a positive number of seconds"),
        ({"approval": True, "expires_in": "1h"}, "must be a positive number of seconds, a timedelta, or None"),
        ({"approval": True, "expires_in": float("inf")}, "must be a positive number of seconds"),
        (
            {"approval": True, "expires_in": 1, "on_expiry": Reject(cast("str", 5))},
            "cannot be kept: the decision 'reject' is none",
        ),
        ({"approval": True, "roles": "finance"}, "must be a tuple of role names"),
        ({"approval": True, "roles": ("",)}, "roles must be non-empty strings"),
        ({"approval": True, "expires_in": 0}, "must be a positive number of seconds"),
        ({"approval": True, "expires_in": float("nan")}, "must be a positive number of seconds"),
        ({"approval": True, "on_expiry": Reject()}, "on_expiry without expires_in never applies"),
        ({"approval": True, "expires_in": 1, "on_expiry": Answer(1)}, "decides no approval; it takes one of Approve"),
        ({"approval": True, "expires_in": 1, "on_expiry": Retry()}, "decides no approval"),
        ({"expires_in": 1, "on_expiry": Reject()}, "this tool asks for none"),
        ({"approval": True, "expires_in": 1, "on_expiry": Edit({"amount": 1})}, "on_expiry edits to what does not fit"),
        ({"name": "pay back"}, "is no name that every provider lets a model call"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(options: dict[str, Any], reason: str) -> None:
    """When it is declared, not when a person would have decided."""
    with pytest.raises(RegistrationError) as refused:
        Registry().tool(**options)(refund)
    assert reason in str(refused.value)


def test_an_expiry_may_be_a_timedelta() -> None:
    """As every other span of time that a user types."""
    registry = Registry()
    registry.tool(refund, approval=True, expires_in=timedelta(hours=1))
    registry.ask(expires_in=timedelta(days=1))
    policies = [registry.policy("refund"), registry.policy("ask")]
    assert [policy.expires_in for policy in policies if policy is not None] == [3600.0, 86_400.0]


@pytest.mark.parametrize(
    ("register", "reason"),
    [
        (lambda registry: registry.model("", Echo()), "a model has a name, which is not ''"),
        (lambda registry: registry.model(5, Echo()), "a model has a name, which is not 5"),
        (lambda registry: registry.stage(make_stage), "a stage is registered by its name"),
        (lambda registry: registry.delegate("d", {"name": "p", "model": "m"}), "give the PlanSpec that it runs"),
        (lambda registry: registry.tool("refund"), "a tool is a function, not 'refund'"),
    ],
)
def test_what_is_no_name_plan_or_function_is_refused(register: Any, reason: str) -> None:
    """Where it is written, not when the first worker announces it or the first plan is bound."""
    with pytest.raises(RegistrationError) as refused:
        register(Registry())
    assert reason in str(refused.value)


@pytest.mark.parametrize("options", [{"expires_in": 1, "on_expiry": Approve()}, {"roles": "finance"}])
def test_a_configuration_of_ask_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    """A question is answered or rejected."""
    with pytest.raises(RegistrationError, match="tool 'ask'"):
        Registry().ask(**options)


def test_a_name_registered_twice_names_both_places() -> None:
    """So that the one of them that is wrong is found."""
    registry = Registry()

    @registry.tool
    def note() -> None: ...

    with pytest.raises(RegistrationError) as refused:

        @registry.tool(name="note")
        def other() -> None: ...

    first, second = note.__code__.co_firstlineno, note.__code__.co_firstlineno + 5
    text = str(refused.value)
    assert text.startswith("tool 'note' is registered twice: at ")
    assert f"test_registry.py:{first}" in text
    assert f"test_registry.py:{second}" in text


def test_every_kind_of_name_is_taken_once() -> None:
    """Tools and delegates share a namespace, since a model calls both; the built-in tool has its name already."""
    spec = PlanSpec(name="child", model="m")
    registry = Registry()
    registry.model("m", Echo())
    registry.stage("s", make_stage)
    registry.delegate("d", spec)
    registry.tool(refund)
    registry.reconcile("refund")(nothing)
    registry.ask(roles=("desk",))
    again: list[Any] = [
        lambda: registry.model("m", Echo()),
        lambda: registry.stage("s", make_stage),
        lambda: registry.delegate("d", spec),
        lambda: registry.delegate("refund", spec),
        lambda: registry.tool(name="d")(refund),
        lambda: registry.tool(name="ask")(refund),
        lambda: registry.reconcile(refund)(nothing),
        registry.ask,
    ]
    for repeat in again:
        with pytest.raises(RegistrationError, match=r"registered twice: at .+, and before at .+"):
            repeat()


def test_models_come_as_ports_factories_and_pydantic_ai_models() -> None:
    """A factory is asked once a plan and may know the plan and its tools."""
    registry = Registry()
    registry.tool(refund)
    echo = Echo()
    registry.model("port", echo)
    registry.model("class", Echo)
    seen: list[Any] = []

    def factory(spec: PlanSpec, tools: Any) -> Echo:
        seen.append((spec.name, tools.names()))
        return echo

    registry.model("factory", factory)
    registry.model("theirs", TestModel(), settings={"temperature": 0.0})
    spec = plan(model="port", tools=("refund",))
    tools = registry.bind_tools(spec)
    assert registry.bind_model("port", spec, tools).inner is echo
    assert isinstance(registry.bind_model("class", spec, tools).inner, Echo)
    assert registry.bind_model("factory", spec, tools).inner is echo
    assert isinstance(registry.bind_model("theirs", spec, tools).inner, PydanticAIModel)
    assert seen == [("p", ("refund",))]


@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        (17, None, "neither a provider's model name such as 'openai:gpt-5-mini', nor a ModelPort"),
        (Echo(), {"temperature": 0}, "settings go with a provider's model"),
        (nothing, None, r"a factory takes \(spec, tools\) or nothing"),
    ],
)
def test_what_is_no_model_is_refused(model: Any, settings: Any, reason: str) -> None:
    """With what would be one."""
    with pytest.raises(RegistrationError, match=reason):
        Registry().model("m", model, settings=settings)


def test_a_model_that_this_worker_cannot_use_is_a_plan_error() -> None:
    """Found when a plan is bound, so that a registry can be read without providers' packages and keys."""
    registry = Registry()
    registry.model("m", "nobody:gpt")
    registry.model("odd", lambda: 17)
    with pytest.raises(PlanError, match=r"model 'm' cannot be used by this worker: Unknown model: nobody:gpt"):
        compile_plan(plan(), registry)
    with pytest.raises(PlanError, match="model 'odd': its factory gave a int, not a ModelPort"):
        compile_plan(plan(model="odd"), registry)


_WITHOUT = """
import sys
sys.modules["pydantic_ai"] = None
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_worker.registry import Registry
registry = Registry()
registry.model("support", "openai:gpt-5-mini")
spec = PlanSpec(name="p", model="support")
try:
    registry.bind_model("support", spec, registry.bind_tools(spec))
except ValueError as error:
    print(error)
"""


def test_without_the_models_extra_the_error_says_what_to_install() -> None:
    """In a process in which pydantic-ai cannot be imported."""
    ended = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, timeout=240, check=True)
    assert ended.stdout == ("model 'support' (openai:gpt-5-mini) needs pydantic-ai: pip install 'turnfleet[models]'\n")


def test_the_registry_does_not_load_providers() -> None:
    """A worker with models of its own never pays for pydantic-ai."""
    code = "import sys, turnfleet_worker.registry; print('pydantic_ai' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert ended.stdout == "False\n"


def test_unregistered_names_are_unknown_however_well_known_they_are() -> None:
    """A plan cannot make a worker spend money on a model that its owner did not offer; all names in one error."""
    registry = Registry()
    registry.model("support", Echo())
    spec = plan(model="openai:gpt-5-mini", tools=("ask", "wipe"), stages=("redact",), delegates=("child",))
    with pytest.raises(PlanError) as refused:
        compile_plan(spec, registry)
    assert refused.value.unknown == {
        "model": ("openai:gpt-5-mini",),
        "tool": ("wipe",),
        "stage": ("redact",),
        "delegate": ("child",),
    }


def test_stages_are_made_with_their_settings_in_the_plans_order() -> None:
    """A factory is asked once a plan; the approval stage stands behind all of them."""
    registry = Registry()
    registry.model("m", Echo())
    registry.tool(approval=True)(refund)

    @registry.stage("tag")
    def tag(settings: Any) -> Stage:
        return Stage(f"tag.{settings['word']}", Phase.PRE_TOOL, nothing)

    spec = plan(
        tools=("refund",),
        stages=({"name": "tag", "settings": {"word": "b"}}, {"name": "tag", "settings": {"word": "a"}}),
    )
    stages = compile_plan(spec, registry).stage_program.stages
    assert [stage.stage_id for stage in stages] == ["tag.b", "tag.a", "turnfleet.approval"]


def test_a_plan_without_approvals_has_no_approval_stage() -> None:
    """An empty phase costs nothing."""
    registry = Registry()
    registry.tool(refund)
    registry.tool(approval=True, name="other")(refund)
    assert registry.bind_stages(plan(tools=("refund",))) == ()


def test_a_stage_that_cannot_be_made_is_a_plan_error() -> None:
    """It names the stage and the plan."""
    registry = Registry()
    registry.stage("tag", lambda settings: settings["word"])
    spec = plan(stages=("tag",))
    with pytest.raises(PlanError, match="stage 'tag' cannot be made with the settings of plan 'p': KeyError"):
        registry.bind_stages(spec)
    spec = plan(stages=({"name": "tag", "settings": {"word": "x"}},))
    with pytest.raises(PlanError, match="stage 'tag': its factory gave a str, not a Stage"):
        registry.bind_stages(spec)


def test_a_response_schema_binds_a_response_port() -> None:
    """And a schema that is none is refused with the plan."""
    registry = Registry()
    assert registry.bind_response(plan()) is None
    assert isinstance(registry.bind_response(plan(response={"type": "object"})), JsonResponse)
    with pytest.raises(ResponseError):
        registry.bind_response(plan(response={"type": "nonsense"}))


async def test_a_reconcile_function_is_asked_with_the_request() -> None:
    """Plain ones run in a thread; the policy always holds an async one."""
    registry = Registry()
    registry.tool(refund)

    @registry.reconcile(refund)
    def find_out(request: ToolRequest) -> Approve:
        return Approve(f"{request.call_id} happened")

    policy = registry.policy("refund")
    assert policy is not None
    assert policy.reconcile is not None
    assert await policy.reconcile(ToolRequest("c1", "refund")) == Approve("c1 happened")


def test_reconcile_needs_a_tool_that_could_be_in_doubt() -> None:
    """Not one that does not exist, nor one that is simply called again."""
    registry = Registry()
    registry.tool(idempotent=True)(refund)
    with pytest.raises(RegistrationError, match="no such tool; registered are ask, refund"):
        registry.reconcile("nonsense")
    with pytest.raises(RegistrationError, match="is idempotent"):
        registry.reconcile(refund)(nothing)


def test_capabilities_are_json_and_hold_schema_digests() -> None:
    """What a worker announces; delegates are callable like tools and listed on their own."""
    registry = Registry()
    registry.model("m", Echo())
    registry.tool(refund)
    registry.delegate("child", PlanSpec(name="child", model="m"))
    registry.stage("s", make_stage)
    described = json.loads(json.dumps(registry.describe_capabilities()))
    assert described == {
        "models": ["m"],
        "tools": {name: registry.policy(name).digest for name in ("ask", "refund")},  # type: ignore[union-attr]
        "stages": ["s"],
        "delegates": ["child"],
    }
    assert all(len(digest) == 64 for digest in described["tools"].values())


_CAPABILITIES = """
import json
from turnfleet_worker.registry import Registry
registry = Registry()
@registry.tool
def pick(colours: frozenset[str] = frozenset({"red", "green", "blue"})) -> None: ...
print(json.dumps(registry.describe_capabilities()))
"""


def test_two_processes_announce_the_same() -> None:
    """Whatever their hash seeds are."""
    said = {
        subprocess.run(
            [sys.executable, "-c", _CAPABILITIES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
