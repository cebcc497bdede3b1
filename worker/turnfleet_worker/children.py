"""Delegated runs, made durable like the run that delegates: their entries stand in its journal (DESIGN 2, DEL-6).

A delegate tool finds the current invocation's `Children` in its context and asks it for a child's plan; outside a
fleet there is none, and a child runs as the kernel runs it.
"""

from collections.abc import Callable, Mapping

from turnfleet_kernel import InvocationKernel, RequestContext
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_worker.durable import RunJournal, make_durable
from turnfleet_worker.fold import Known
from turnfleet_worker.gate import Gate
from turnfleet_worker.policy import ToolPolicy
from turnfleet_worker.tracing.runs import note_run
from turnfleet_worker.writer import RunWriter


class Children:
    """Makes durable what one invocation delegates, however deep.

    All of it is written by the root's own writer, in one order; `known` says what earlier invocations left, by run id.
    `gate` is the root's: a drain reaches a child at its own journal points, a cancel by way of the calls that run it.
    """

    def __init__(
        self,
        writer: RunWriter,
        *,
        known: Mapping[str, Known],
        gate: Gate,
        policy: Callable[[str], ToolPolicy | None],
    ) -> None:
        self._writer = writer
        self._known = known
        self._gate = gate
        self._policy = policy

    def prepare(self, plan: InvocationPlan) -> tuple[InvocationKernel, InvocationPlan]:
        """Give a child's plan with its ports wrapped, and the kernel that tells its journal whose it is."""
        journal = RunJournal(self._writer, known=self._known, gate=self._gate)
        return _Telling(journal), make_durable(plan, journal, self._policy)


class _Telling(InvocationKernel):
    """A kernel for one child's run: the run's context is made inside of the delegation, and is known when it begins."""

    __slots__ = ("_journal",)

    def __init__(self, journal: RunJournal) -> None:
        self._journal = journal

    def bind(self, plan: InvocationPlan, ctx: RequestContext) -> None:
        super().bind(plan, ctx)
        note_run(ctx.run_id)
        self._journal.begin(ctx)
