"""A worker's inside without its process: one run claimed and worked on, for benchmarks that count what it leaves."""

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, NewRun
from turnfleet.wire.request import request_digest
from turnfleet_kernel import InvocationKernel, PlanSpec, compile_plan
from turnfleet_kernel.contracts.spec import plan_id
from turnfleet_worker import Registry, WorkerSettings
from turnfleet_worker.ending import Left
from turnfleet_worker.invocation import Invocation
from turnfleet_worker.workbench import Bench

LEASE_MS = 3_600_000


def run_of(spec: PlanSpec, run_id: str, prompt: str) -> NewRun:
    """Give a run to be, as a producer writes it."""
    identity, request = plan_id(spec), {"prompt": prompt}
    return NewRun(
        run_id=run_id,
        plan=spec.model_dump(mode="json", exclude_defaults=True),
        plan_id=identity,
        request=request,
        digest=request_digest(identity, request),
        queue="q",
    )


async def claimed(executor: AsyncExecutor, keys: Keys, run: NewRun) -> Claim:
    """Create a run and claim it."""
    await executor.execute(commands.create(keys, run))
    claim = await executor.execute(
        commands.claim(keys, run.run_id, claim_id=f"c-{run.run_id}", worker="w", lease_ms=LEASE_MS, recorded=True)
    )
    assert isinstance(claim, Claim), claim
    return claim


async def worked_on(executor: AsyncExecutor, keys: Keys, registry: Registry, spec: PlanSpec, run: NewRun) -> Left:
    """Create a run, claim it, and take it as far as it goes."""
    claim = await claimed(executor, keys, run)
    bench = Bench(
        kernel=InvocationKernel(),
        executor=executor,
        keys=keys,
        registry=registry,
        settings=WorkerSettings(),
        draining=lambda: False,
    )
    return await Invocation(bench, claim, compile_plan(spec, registry)).run()
