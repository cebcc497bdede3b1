"""What a fleet's owner offers: models, tools, stages and delegates by name. Plans may name these and no others."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, cast, overload

from turnfleet_kernel.contracts.interrupts import Decision
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_worker.ask import ASK, DESCRIPTION, make_ask
from turnfleet_worker.catalogue import Catalogue, StageFactory
from turnfleet_worker.delegates import Delegate
from turnfleet_worker.errors import RegistrationError
from turnfleet_worker.models.factories import model_factory
from turnfleet_worker.places import caller, place_of
from turnfleet_worker.policy import (
    ApprovalPolicy,
    Reconcile,
    ToolPolicy,
    check_name,
    declare_policy,
    declared_expiry,
    declared_roles,
)
from turnfleet_worker.signatures import read_signature
from turnfleet_worker.threads import DaemonThreads
from turnfleet_worker.toolport import RegisteredTool, as_coroutine

__all__ = ["Registry"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
FactoryT = TypeVar("FactoryT", bound=StageFactory)


class Registry(Catalogue):
    """Names and what they stand for. It is the `PlanRegistry` that `compile_plan(spec, registry)` takes (IPL-3).

    Every registry knows the tool `ask`; a plan that lists it may put questions to people. Plain functions run in at
    most `threads` daemon threads. Fill it when the program starts: a name registered twice is a `RegistrationError`
    that names both places. Tools and delegates share one namespace, since a model calls both.
    """

    def __init__(self, *, threads: int = 256) -> None:
        super().__init__(DaemonThreads(threads))
        self._places: dict[tuple[str, str], str] = {}
        self._claim("tool", ASK, "built in; configure it with registry.ask(…)")
        self._set_ask((), None, None)

    def model(self, name: str, model: Any, *, settings: Mapping[str, Any] | None = None) -> None:
        """Offer a model: a name that pydantic-ai knows (`openai:gpt-5-mini`), a `ModelPort`, or a factory of one.

        A factory is called once a plan, with `(spec, tools)` or without arguments. `settings` are pydantic-ai's model
        settings and go with a name or a pydantic-ai model only. A name is looked up when a plan is bound, so that a
        program without the `models` extra can still read its registry. Plans may use registered names only: what a
        worker spends money on is its owner's to say.
        """
        factory = model_factory(name, model, settings)
        self._claim("model", name, caller())
        self._models[name] = factory

    @overload
    def tool(
        self,
        function: FunctionT,
        /,
        *,
        approval: ApprovalPolicy = False,
        roles: tuple[str, ...] = (),
        expires_in: float | timedelta | None = None,
        on_expiry: Decision | None = None,
        idempotent: bool = False,
        name: str | None = None,
        description: str | None = None,
    ) -> FunctionT: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        approval: ApprovalPolicy = False,
        roles: tuple[str, ...] = (),
        expires_in: float | timedelta | None = None,
        on_expiry: Decision | None = None,
        idempotent: bool = False,
        name: str | None = None,
        description: str | None = None,
    ) -> Callable[[FunctionT], FunctionT]: ...

    def tool(
        self,
        function: Any = None,
        /,
        *,
        approval: ApprovalPolicy = False,
        roles: tuple[str, ...] = (),
        expires_in: float | timedelta | None = None,
        on_expiry: Decision | None = None,
        idempotent: bool = False,
        name: str | None = None,
        description: str | None = None,
    ) -> Any:
        """Offer a function, async or plain, as a tool; gives the function back unchanged.

        Its schema and description come from signature and docstring; a parameter annotated `ToolContext` is filled by
        the worker. `approval` is True, False, or a predicate, plain or async, on the arguments as the function
        receives them, defaults filled in; a predicate that raises asks, and the log says so. `description` takes the
        docstring's place, which `python -OO` strips (a tool with neither is refused there). `expires_in` is in
        seconds, or a timedelta; `on_expiry` is the decision taken then, and None ends the run `expired`.
        `idempotent=True` says that a call whose outcome a crash has lost may be made again with the same call id.
        Raises `RegistrationError`.
        """
        if function is not None and not callable(function):
            raise RegistrationError(
                f"a tool is a function, not {function!r}: give its options by name, as @registry.tool(name='…')"
            )
        add = partial(
            self._add_tool,
            approval=approval,
            roles=roles,
            expires_in=expires_in,
            on_expiry=on_expiry,
            idempotent=idempotent,
            name=name,
            description=description,
        )
        return add if function is None else add(function)

    def ask(
        self,
        *,
        roles: tuple[str, ...] = (),
        expires_in: float | timedelta | None = None,
        on_expiry: Decision | None = None,
    ) -> None:
        """Configure the built-in tool `ask`: who may answer, for how long, and what holds after that.

        `expires_in` is in seconds, or a timedelta; `on_expiry` is an `Answer` or a `Reject`. Raises
        `RegistrationError`.
        """
        seconds = declared_expiry(ASK, "question", expires_in, on_expiry)
        self._claim("configuration of", ASK, caller())
        self._set_ask(declared_roles(ASK, roles), seconds, on_expiry)

    @overload
    def stage(self, name: str, factory: FactoryT) -> FactoryT: ...

    @overload
    def stage(self, name: str) -> Callable[[FactoryT], FactoryT]: ...

    def stage(self, name: str, factory: Any = None) -> Any:
        """Offer a stage: `factory(settings) -> Stage` is called once a plan. Usable as a decorator."""
        if callable(name):
            raise RegistrationError("a stage is registered by its name: @registry.stage('name')")
        if factory is None:
            return partial(self._add_stage, name)
        return self._add_stage(name, factory)

    def delegate(self, name: str, plan: PlanSpec, *, description: str | None = None) -> None:
        """Offer a plan as a child agent, which other plans call as a tool of this name with a `prompt` (DEL-1).

        `description` tells the calling model what the agent is for. Raises `RegistrationError`.
        """
        if not isinstance(plan, PlanSpec):
            raise RegistrationError(f"delegate {name!r}: give the PlanSpec that it runs, not a {type(plan).__name__}")
        child = Delegate(plan, description or f"Hand a task to the agent {name}.")
        tool = self._delegate_tool(name, child)
        self._claim("delegate", tool.signature.name, caller())
        self._delegates[name] = child
        self._delegate_policies[name] = tool.policy

    def reconcile(self, tool: str | Callable[..., Any]) -> Callable[[FunctionT], FunctionT]:
        """Decorate the function that finds out, after a crash, whether a call of `tool` took effect.

        It gets the `ToolRequest` (its `call_id` is what the tool had as idempotency key) and may be async or plain. It
        gives `Approve(value)` (it happened), `Retry()` (it did not: call it), `Reject(reason)`, or None: ask a person.
        A person is asked, too, when it raises or gives something else, and the log says so.
        Raises `RegistrationError` for a tool that is not registered, or has one already.
        """
        named = tool if isinstance(tool, str) else self._name_of(tool)
        if named not in self._tools:
            raise RegistrationError(
                f"reconcile({named!r}): no such tool; registered are {', '.join(sorted(self._tools))}"
            )

        def add(function: FunctionT) -> FunctionT:
            registered = self._tools[named]
            if registered.policy.idempotent:
                raise RegistrationError(
                    f"tool {named!r} is idempotent: it is called again after a crash, and never asked"
                )
            self._claim("reconcile", named, place_of(function))
            ask_it = cast("Reconcile", as_coroutine(function, self._threads))
            self._tools[named] = replace(registered, policy=replace(registered.policy, reconcile=ask_it))
            return function

        return add

    def variant(
        self, *, models: Mapping[str, Any], function: Callable[[str, Callable[..., Any]], Callable[..., Any]]
    ) -> "Registry":
        """Give a registry like this one, with other models for some of its names, and other functions for its tools.

        `function` is called with each tool's name and function. It has threads of its own for plain functions: `close`
        ends them. Raises `RegistrationError` for a model that is not registered.
        """
        for name in set(models) - set(self._models):
            raise RegistrationError(
                f"model {name!r} stands for none that is registered; those are {', '.join(sorted(self._models))}"
            )
        other = copy(self)
        vars(other).update(
            _models=self._models | {name: model_factory(name, each, None) for name, each in models.items()},
            _tools={name: replace(each, function=function(name, each.function)) for name, each in self._tools.items()},
            _threads=DaemonThreads(self._threads.limit),
        )
        return other

    @property
    def threads_at_work(self) -> int:
        """How many plain functions are being called."""
        return self._threads.at_work

    def close(self) -> None:
        """Let the threads of plain functions end as soon as they are idle."""
        self._threads.close()

    def _add_tool(
        self, function: FunctionT, /, *, name: str | None, description: str | None, **options: Any
    ) -> FunctionT:
        signature = read_signature(function, name=name, description=description)
        policy = declare_policy(signature, **options)
        self._claim("tool", signature.name, place_of(function))
        self._tools[signature.name] = RegisteredTool(function, signature, policy)
        return function

    def _set_ask(self, roles: tuple[str, ...], expires_in: float | None, on_expiry: Decision | None) -> None:
        function = make_ask(roles)
        signature = read_signature(function, description=DESCRIPTION)
        # Asking again under the same call id is asking once: nothing is in doubt after a crash.
        policy = ToolPolicy(
            tool=ASK,
            roles=roles,
            expires_in=expires_in,
            on_expiry=on_expiry,
            idempotent=True,
            schema=signature.schema,
            digest=signature.digest,
        )
        self._tools[ASK] = RegisteredTool(function, signature, policy)

    def _add_stage(self, name: str, factory: FactoryT) -> FactoryT:
        if not callable(factory):
            raise RegistrationError(
                f"stage {name!r}: give a factory(settings) -> Stage, not a {type(factory).__name__}"
            )
        self._claim("stage", name, caller())
        self._stages[name] = factory
        return factory

    def _claim(self, kind: str, name: str, place: str) -> None:
        """Take a name, or refuse it with both places. Raises `RegistrationError`, too, for what is no name."""
        check_name(kind, name)
        space = "tool" if kind == "delegate" else kind
        taken = self._places.get((space, name))
        if taken is not None:
            raise RegistrationError(f"{kind} {name!r} is registered twice: at {place}, and before at {taken}")
        self._places[space, name] = place

    def _name_of(self, function: Callable[..., Any]) -> str:
        for name, tool in self._tools.items():
            if tool.function is function:
                return name
        return str(getattr(function, "__name__", function))
