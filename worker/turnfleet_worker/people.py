"""What the store keeps of an interrupt, beside what the kernel says of it: who may decide, how, and until when."""

from collections.abc import Callable

from turnfleet.store.records import StoredInterrupt
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.interrupts import Interrupt
from turnfleet_kernel.contracts.json import decision_to_json
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_worker.policy import ToolPolicy

MILLISECONDS = 1000


def stored_interrupt(
    interrupt: Interrupt, policy: Callable[[str], ToolPolicy | None], *, anew: bool = False
) -> StoredInterrupt:
    """Return the stored form of an interrupt; `policy` gives a tool's, by name. `anew`: no earlier decision stands."""
    payload = plain_json(thaw(interrupt.payload))
    question = interrupt.kind == "question"
    rules = policy("ask" if question else payload.get("tool", ""))
    schema = payload.get("schema") if question else (payload.get("schema") or (rules.schema if rules else None))
    in_doubt = interrupt.kind == "in_doubt"
    return StoredInterrupt(
        id=interrupt.id,
        kind=interrupt.kind,
        payload=payload,
        call_id=interrupt.call_id,
        roles=tuple(payload.get("roles") or (rules.roles if rules else ())),
        expires_in_ms=round(rules.expires_in * MILLISECONDS) if rules and rules.expires_in is not None else None,
        # Nobody looking is no answer to "did this happen?": a doubt that expires ends the run.
        on_expiry=decision_to_json(rules.on_expiry) if rules and rules.on_expiry is not None and not in_doubt else None,
        schema=schema,
        digest=payload.get("digest"),
        anew=anew,
    )
