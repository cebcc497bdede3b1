"""What `registry.model(name, …)` takes, as one thing: a factory that binds a model to a plan."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.errors import PlanError
from turnfleet_kernel.ports import ModelPort, ToolPort
from turnfleet_worker.errors import ModelRefusedError, RegistrationError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["ModelFactory", "model_factory"]

ModelFactory: TypeAlias = Callable[[PlanSpec, ToolPort], ModelPort]


def model_factory(name: str, model: Any, settings: Mapping[str, Any] | None) -> ModelFactory:
    """Make a factory of a provider's model name, a pydantic-ai model, a `ModelPort`, or a factory.

    Raises `RegistrationError` for anything else, and for settings that nobody would read.
    """
    if isinstance(model, str) or _is_pydantic_ai(model):
        return _Provided(name, model, settings)
    if settings is not None:
        raise RegistrationError(
            f"model {name!r}: settings go with a provider's model; give them to your own port yourself"
        )
    if _is_port(model):
        return lambda spec, tools: model  # noqa: ARG005 - a ready port is the same for every plan
    if callable(model):
        return _Made(name, model)
    raise RegistrationError(
        f"model {name!r}: {type(model).__name__} is neither a provider's model name such as 'openai:gpt-5-mini', "
        "nor a ModelPort (invoke, stream), nor a factory of one"
    )


class _Provided:
    """A model of one of pydantic-ai's providers; the client it makes is shared by all plans."""

    def __init__(self, name: str, model: "str | Model", settings: Mapping[str, Any] | None) -> None:
        self._name = name
        self._model = model
        self._settings = settings

    def __call__(self, spec: PlanSpec, tools: ToolPort) -> ModelPort:
        try:
            from turnfleet_worker.models.pydantic_ai import PydanticAIModel, known_model  # noqa: PLC0415 - an extra
        except ImportError as missing:
            raise PlanError(
                f"model {self._name!r} ({self._model}) needs pydantic-ai: pip install 'turnfleet[models]'"
            ) from missing
        try:
            self._model = known_model(self._model)
        except ModelRefusedError as refused:
            raise PlanError(f"model {self._name!r} cannot be used by this worker: {refused}") from refused
        described = [tools.describe(tool) for tool in tools.names()]
        return PydanticAIModel(
            self._name, self._model, tools=described, response=spec.response, settings=self._settings
        )


class _Made:
    """A user's own factory, with `(spec, tools)` or without arguments."""

    def __init__(self, name: str, factory: Callable[..., Any]) -> None:
        self._name = name
        self._factory = factory
        try:
            signature = inspect.signature(factory)
        except (TypeError, ValueError) as opaque:
            raise RegistrationError(
                f"model {name!r}: its factory cannot be inspected; wrap it in a function"
            ) from opaque
        fitting = [arguments for arguments in ((None, None), ()) if _takes(signature, arguments)]
        if not fitting:
            raise RegistrationError(f"model {name!r}: a factory takes (spec, tools) or nothing, not {signature}")
        self._wants_plan = bool(fitting[0])

    def __call__(self, spec: PlanSpec, tools: ToolPort) -> ModelPort:
        try:
            made: ModelPort = self._factory(spec, tools) if self._wants_plan else self._factory()
        except PlanError:
            raise
        except Exception as failed:
            raise PlanError(f"model {self._name!r}: its factory raised {type(failed).__name__}: {failed}") from failed
        if not _is_port(made):
            raise PlanError(f"model {self._name!r}: its factory gave a {type(made).__name__}, not a ModelPort")
        return made


def _takes(signature: inspect.Signature, arguments: tuple[None, ...]) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _is_port(model: Any) -> bool:
    return (
        not inspect.isclass(model)
        and callable(getattr(model, "invoke", None))
        and callable(getattr(model, "stream", None))
    )


def _is_pydantic_ai(model: Any) -> bool:
    """Whether it is one of their models, without importing what the program has not imported itself."""
    theirs = sys.modules.get("pydantic_ai.models")
    return theirs is not None and isinstance(model, theirs.Model)
