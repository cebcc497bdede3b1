"""The example's fleet: one model, one tool. `celery -A myfleet worker` runs it, `celery -A myfleet flower` watches it.

Settings come from the environment: TURNFLEET_REDIS_URL, TURNFLEET_NAME, APPROVAL_ABOVE, SUPPORT_MODEL, DRAIN_SECONDS,
RULE_MODEL_SECONDS, TURNFLEET_SIGNING_KEYS. docker-compose.yml sets them, .env.example explains them.
"""

import os

from refunds import RefundRule

from turnfleet import SigningKeys
from turnfleet_worker import Registry, Reject, WorkerSettings, create_app

APPROVAL_ABOVE = float(os.environ.get("APPROVAL_ABOVE", "50"))

registry = Registry()
registry.model(
    "support", os.environ.get("SUPPORT_MODEL") or RefundRule(float(os.environ.get("RULE_MODEL_SECONDS", "0")))
)


@registry.tool(
    approval=lambda arguments: arguments["amount"] > APPROVAL_ABOVE,
    roles=("finance",),
    expires_in=24 * 3600,
    on_expiry=Reject("nobody decided within a day"),
)
async def refund(order_id: str, amount: float) -> str:
    """Refund an order."""
    # Here a payment provider would be called, with the call's id as its idempotency key.
    return f"refunded {amount:.2f} for order {order_id}"


app = create_app(
    registry,
    os.environ["TURNFLEET_REDIS_URL"],
    name=os.environ.get("TURNFLEET_NAME", "default"),
    signing=SigningKeys.from_environment(),
    settings=WorkerSettings(drain_seconds=float(os.environ.get("DRAIN_SECONDS", "20"))),
)
