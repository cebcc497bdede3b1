"""What a tool's owner decided about it: who is asked before a call, and what may be done after a crash."""

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from turnfleet_kernel.contracts.interrupts import Answer, Approve, Decision, Edit, Reject, Retry
from turnfleet_kernel.contracts.json import decision_to_json
from turnfleet_kernel.contracts.values import ToolRequest
from turnfleet_worker.errors import ArgumentsError, RegistrationError
from turnfleet_worker.places import place_of_error
from turnfleet_worker.signatures import Signature

__all__ = [
    "ApprovalPolicy",
    "Reconcile",
    "ToolPolicy",
    "check_name",
    "declare_policy",
    "declared_expiry",
    "declared_roles",
]

_log = logging.getLogger(__name__)

ApprovalPolicy: TypeAlias = bool | Callable[[Mapping[str, Any]], Any]
"""Never (False), always (True), or a predicate, plain or async, on the arguments as the function would receive them."""

Reconcile: TypeAlias = Callable[[ToolRequest], Awaitable[Decision | None]]
"""Asked after a crash whether a call that had started took effect. It answers as a person would: Approve(value) for
"it happened", Retry() for "it did not, call it", Reject(reason); None for "cannot tell, ask a person"."""

_BY_KIND: Mapping[str, tuple[type, ...]] = {"approval": (Approve, Edit, Reject), "question": (Answer, Reject)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """A tool's policy as registered. `expires_in` is in seconds from the pause; None waits without end.

    `roles` and `expires_in` count for every interrupt of the tool's calls, an `in_doubt` included; `on_expiry` decides
    its approvals (for `ask`, its questions) when the time is over, and None then ends the run `expired`.
    """

    tool: str
    approval: ApprovalPolicy = False
    roles: tuple[str, ...] = ()
    expires_in: float | None = None
    on_expiry: Decision | None = None
    idempotent: bool = False
    reconcile: Reconcile | None = None
    schema: Mapping[str, Any] | None = None
    digest: str = ""

    @property
    def asks(self) -> bool:
        """Whether a call may have to wait for approval at all."""
        return self.approval is not False

    async def must_ask(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments waits for a person. A predicate that raises does: the safe side."""
        if isinstance(self.approval, bool):
            return self.approval
        try:
            answer = self.approval(arguments)
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except Exception as failed:  # noqa: BLE001 - whatever it is, "nobody looked at this" must not be what follows
            # Type and place only: its text may quote the arguments.
            _log.warning(
                "the approval predicate of tool %r raised %s at %s: the call waits for a person",
                self.tool,
                type(failed).__name__,
                place_of_error(failed),
            )
            return True

    async def found_out(self, request: ToolRequest) -> Approve | Reject | Retry | None:
        """Say what `reconcile` knows of a call in doubt. None is for a person to say: the safe side.

        So is what it raises, and what it gives that is no such decision: neither says that the call did not happen.
        """
        if self.reconcile is None:
            return None
        try:
            said: object = await self.reconcile(request)
        except Exception as failed:  # noqa: BLE001 - as above; and the model, told of an error, would make the call anew
            gave = f"raised {type(failed).__name__} at {place_of_error(failed)}"
        else:
            if said is None or (isinstance(said, Approve | Reject | Retry) and _can_be_kept(said)):
                return said
            gave = f"gave a {type(said).__name__} that is no Approve, Retry or Reject to be kept"
        _log.warning("reconcile of tool %r %s: a person is asked whether the call happened", self.tool, gave)
        return None


def declare_policy(
    signature: Signature,
    *,
    approval: ApprovalPolicy = False,
    roles: object = (),
    expires_in: float | timedelta | None = None,
    on_expiry: Decision | None = None,
    idempotent: bool = False,
) -> ToolPolicy:
    """Make the policy of a tool that may ask for approval. Raises `RegistrationError` for one that makes no sense."""
    tool = signature.name
    if not (isinstance(approval, bool) or _takes_arguments(approval)):
        raise RegistrationError(
            f"tool {tool!r}: approval must be True, False or a predicate on the arguments, such as "
            "lambda args: args['amount'] > 50"
        )
    if not isinstance(idempotent, bool):
        raise RegistrationError(f"tool {tool!r}: idempotent={idempotent!r} must be True or False")
    seconds = declared_expiry(tool, "approval", expires_in, on_expiry)
    if on_expiry is not None and approval is False:
        raise RegistrationError(f"tool {tool!r}: on_expiry decides an approval, and this tool asks for none")
    if isinstance(on_expiry, Edit):
        _check_edit(signature, on_expiry)
    return ToolPolicy(
        tool=tool,
        approval=approval,
        roles=declared_roles(tool, roles),
        expires_in=seconds,
        on_expiry=on_expiry,
        idempotent=idempotent,
        schema=signature.schema,
        digest=signature.digest,
    )


def check_name(kind: str, name: object) -> None:
    """Raise `RegistrationError` for what plans cannot name a model, tool, stage or delegate by."""
    if not isinstance(name, str) or not name:
        raise RegistrationError(f"a {kind} has a name, which is not {name!r}: plans name it by a non-empty text")


def declared_roles(tool: str, roles: object) -> tuple[str, ...]:
    """Read `roles` as declared. Raises `RegistrationError` for a lone string: it would be read letter by letter."""
    if not isinstance(roles, list | tuple | set | frozenset):
        raise RegistrationError(f"tool {tool!r}: roles={roles!r} must be a tuple of role names, such as ('finance',)")
    named = tuple(sorted(roles) if isinstance(roles, set | frozenset) else roles)
    if not all(isinstance(role, str) and role for role in named):
        raise RegistrationError(f"tool {tool!r}: roles must be non-empty strings")
    return named


def declared_expiry(tool: str, kind: str, expires_in: float | timedelta | None, on_expiry: object) -> float | None:
    """Read `expires_in` as declared, in seconds; refuse an expiry that could never apply.

    `kind` is what the tool's pause asks for: approval or question.
    """
    seconds: object = expires_in.total_seconds() if isinstance(expires_in, timedelta) else expires_in
    if seconds is not None and not (
        isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf
    ):
        raise RegistrationError(
            f"tool {tool!r}: expires_in={expires_in!r} must be a positive number of seconds, a timedelta, or None"
        )
    _check_default(tool, kind, seconds, on_expiry)
    return seconds


def _check_default(tool: str, kind: str, seconds: float | None, on_expiry: object) -> None:
    if on_expiry is None:
        return
    if seconds is None:
        raise RegistrationError(f"tool {tool!r}: on_expiry without expires_in never applies; say expires_in=seconds")
    if not (isinstance(on_expiry, Approve | Edit | Reject | Answer) and isinstance(on_expiry, _BY_KIND[kind])):
        fitting = ", ".join(each.__name__ for each in _BY_KIND[kind])
        raise RegistrationError(f"tool {tool!r}: on_expiry={on_expiry!r} decides no {kind}; it takes one of {fitting}")
    try:
        decision_to_json(on_expiry)
    except ValueError as unfit:
        raise RegistrationError(f"tool {tool!r}: on_expiry={on_expiry!r} cannot be kept: {unfit}") from unfit


def _can_be_kept(decision: Decision) -> bool:
    try:
        decision_to_json(decision)
    except ValueError:
        return False
    return True


def _takes_arguments(predicate: object) -> bool:
    """Whether this can be called with a call's arguments: one that cannot would raise, and so ask, each time."""
    if not callable(predicate):
        return False
    try:
        inspect.signature(predicate).bind({})
    except TypeError:
        return False
    except ValueError:  # built in, and says nothing about what it takes
        return True
    return True


def _check_edit(signature: Signature, edit: Edit) -> None:
    try:
        signature.bind(edit.arguments)
    except ArgumentsError as unfit:
        raise RegistrationError(f"tool {signature.name!r}: on_expiry edits to what does not fit. {unfit}") from unfit
