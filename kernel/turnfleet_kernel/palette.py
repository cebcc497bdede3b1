"""Which model an invocation uses (IPL-6)."""

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.plan import InvocationPlan, ModelPalette
from turnfleet_kernel.ports import ModelPort

__all__ = ["model_for"]


def model_for(plan: InvocationPlan, ctx: RequestContext) -> ModelPort:
    """Give the invocation's model; the first time it is decided and recorded on the context, for the whole run.

    Raises:
        ContractViolationError: the choice, or the recorded one, is not in the palette.
    """
    model = plan.bindings.model
    if not isinstance(model, ModelPalette):
        return model
    if ctx.model_name is None:
        ctx.model_name = (model.choose or _default_choice)(plan, ctx)
    if ctx.model_name not in model.models:
        has = ", ".join(model.models)
        msg = f"run {ctx.run_id} chose model {ctx.model_name!r}; the palette of plan {plan.identity.name!r} has {has}"
        raise ContractViolationError(msg)
    return model.models[ctx.model_name]


def _default_choice(plan: InvocationPlan, ctx: RequestContext) -> str:
    palette = plan.bindings.model
    models = palette.models if isinstance(palette, ModelPalette) else {}
    asked = ctx.resolved_input("model")
    if isinstance(asked, str) and asked in models:
        return asked
    return "default" if "default" in models else next(iter(models))
