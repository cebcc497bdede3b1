"""The demo's fleet: `celery -A turnfleet_worker.demo.fleet worker` runs a worker of it.

The environment says which fleet it is (`TURNFLEET_REDIS_URL`, `TURNFLEET_BROKER_URL`, `TURNFLEET_NAME`), from which
amount on a person decides (`TURNFLEET_DEMO_LIMIT`), where the ledger is (`TURNFLEET_DEMO_LEDGER`), and which model is
offered beside the rules (`TURNFLEET_DEMO_MODEL`, a name that pydantic-ai knows).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from celery import Celery

from turnfleet_worker import Registry, create_app
from turnfleet_worker.demo import tools
from turnfleet_worker.demo.job import RULES, Settings
from turnfleet_worker.demo.ledger import Ledger
from turnfleet_worker.demo.rules import RuleModel
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.toolcontext import ToolContext

DRAIN_SECONDS = 2.0  # its tools take milliseconds, and whoever stops the demo waits for it


@dataclass(frozen=True, slots=True)
class Declined:
    """A write-off that was proposed and not made."""

    invoice: str
    amount: Decimal
    reason: str


def build_registry(settings: Settings) -> Registry:
    """Return the registry of the demo: two models at most, five tools, one policy."""
    registry = Registry()
    ledger = Ledger(settings.ledger)
    registry.model(RULES, RuleModel())
    if settings.model is not None:
        registry.model(settings.model, settings.model)
    registry.tool(idempotent=True)(tools.read_invoices)
    registry.tool(idempotent=True)(tools.read_payments)

    @registry.tool(idempotent=True)
    def match_payments(invoices: str, payments: str, context: ToolContext) -> dict[str, Any]:
        """Match the payments with the invoices; gives counts, totals, mismatches and the proposed write-offs.

        Args:
            invoices: path of the file of invoices
            payments: path of the file of payments
            context: the call
        """
        return tools.match(invoices, payments, ledger=ledger, run_id=context.run_id)

    def above_the_limit(arguments: Mapping[str, Any]) -> bool:
        return tools.needs_approval(arguments, settings.limit)

    # The ledger is keyed by the call, so the call may be made again after a crash.
    @registry.tool(approval=above_the_limit, idempotent=True)
    def write_off(invoice: str, amount: Decimal, reason: str, context: ToolContext) -> dict[str, Any]:
        """Write off what is missing on an invoice. Above a limit a person decides first, and may change it.

        Args:
            invoice: the invoice's number
            amount: how much, in whole cents
            reason: why, for the ledger
            context: the call
        """
        return tools.write_off(invoice, amount, reason, ledger=ledger, run_id=context.run_id, call_id=context.call_id)

    @registry.tool(idempotent=True)
    def write_report(
        invoices: str, payments: str, path: str, declined: list[Declined], context: ToolContext
    ) -> dict[str, Any]:
        """Write the report file, with what this run wrote off.

        Args:
            invoices: path of the file of invoices
            payments: path of the file of payments
            path: where the report goes
            declined: the write-offs that were proposed and not made, each with the reason
            context: the call
        """
        not_made = [(item.invoice, item.amount, item.reason) for item in declined]
        return tools.write_report(invoices, payments, path, not_made, ledger=ledger, run_id=context.run_id)

    return registry


def build_app(registry: Registry, environment: Mapping[str, str] = os.environ) -> Celery:
    """Return the Celery app of the fleet that the environment names."""
    return create_app(
        registry,
        environment.get("TURNFLEET_REDIS_URL", "redis://localhost:6379/0"),
        name=environment.get("TURNFLEET_NAME", "demo"),
        broker_url=environment.get("TURNFLEET_BROKER_URL"),
        settings=WorkerSettings(drain_seconds=DRAIN_SECONDS),
        key_prefix=environment.get("TURNFLEET_KEY_PREFIX", ""),
    )


# Celery finds an app by importing its module: this is the one place where something is made on import.
registry = build_registry(Settings.from_environment())
app = build_app(registry)
