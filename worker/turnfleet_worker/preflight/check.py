"""A whole preflight: the fleet's runs, one after another, before one judge."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.wire.signing import SigningKeys
from turnfleet.wire.versions import VERSIONS, Versions
from turnfleet_worker.preflight.judge import Judge
from turnfleet_worker.preflight.report import Report
from turnfleet_worker.preflight.survey import Survey, Wanted
from turnfleet_worker.registry import Registry

OnProgress = Callable[[int, int, Report], None]
"""Called after each run: how many were passed, of how many that are expected, and what was found so far."""


async def preflight(
    registry: Registry,
    executor: AsyncExecutor,
    keys: Keys,
    wanted: Wanted,
    *,
    stages: bool = True,
    signing: SigningKeys | None = None,
    on_progress: OnProgress = lambda _passed, _expected, _report: None,
) -> Report:
    """Say what a build, given as its registry, would do with a fleet's runs. Reads only; see `Judge` and `Survey`.

    Raises `FleetUnavailable`.
    """
    report = Report()
    report.fleet += unserved_versions(await executor.execute(commands.announced(keys)), VERSIONS)
    survey, judge = Survey(executor, keys, wanted), Judge(registry, stages=stages, signing=signing, fleet=keys.fleet)
    async for file in survey.files():
        report.take(await judge.judge(file))
        on_progress(survey.passed, survey.expected, report)
        await asyncio.sleep(0)  # a rehearsal may come to its end without a single wait
    return report


def unserved_versions(workers: Iterable[Mapping[str, Any]], versions: Versions) -> list[str]:
    """Say which envelope versions are written by live workers and not served by this build.

    A worker writes the newest of those that it serves.
    """
    written = {
        max(worker["envelopes"]): str(worker.get("version", "?")) for worker in workers if worker.get("envelopes")
    }
    serves = ", ".join(map(str, versions.served))
    return [
        f"workers of version {release} are at work and write envelopes of version {version}; this build serves {serves}"
        for version, release in sorted(written.items())
        if version not in versions.served
    ]
