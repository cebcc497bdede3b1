"""One chaos from its start to its report."""

import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Final, assert_never

import redis

from turnfleet import Fleet
from turnfleet.errors import FleetUnavailable
from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.chaos.broker import Broker
from turnfleet_worker.chaos.crew import Crew, Hand, Shape, name_of
from turnfleet_worker.chaos.faults import Fault, plan_faults
from turnfleet_worker.chaos.fleet import LEDGER_VARIABLE, SETTINGS
from turnfleet_worker.chaos.ledger import Ledger
from turnfleet_worker.chaos.people import Outside, Seen, read_stream
from turnfleet_worker.chaos.report import Loss, Report, recoveries, resumes
from turnfleet_worker.chaos.server import ChaosRedis, choose_servers
from turnfleet_worker.chaos.show import Progress, Show
from turnfleet_worker.chaos.verdict import End, Evidence, judge
from turnfleet_worker.chaos.workload import Script, write_scripts
from turnfleet_worker.local.figures import spread, versions
from turnfleet_worker.local.session import Session

FLEET: Final = "chaos"
READY_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 120.0
"""How long everything may take to run to its end once the faults are over; what has not ended then is lost."""

TICK_SECONDS: Final = 0.05
CLIENT_SECONDS: Final = 2.0
FOLLOWED: Final = 6
DUPLICATED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What may be asked for. `server`: which binary, None takes the first that is found."""

    seconds: float
    runs: int
    workers: int
    seed: int
    server: str | None = None


class Chaos:
    """Everything that is alive while a chaos goes on. The session's thread ticks; the people have their own."""

    def __init__(self, options: Options, session: Session, show: Show) -> None:
        self._options = options
        self._session = session
        self._show = show
        self._dice = random.Random(f"victims {options.seed}")  # noqa: S311 - who is hit, no secret
        self._scripts = write_scripts(options.seed, runs=options.runs, seconds=options.seconds)
        self._faults: Counter[str] = Counter()
        self._missed: Counter[str] = Counter()
        self._losses: list[Loss] = []

    def run(self) -> Report:
        """Do it. Raises `RedisMissingError` without a server, `ChildFailedError` when no worker can be started."""
        folder, options = self._session.folder, self._options
        servers = choose_servers(options.server)
        self._redis = ChaosRedis(self._session.children, folder=folder, servers=servers)
        self._show.note("redis", f"{self._redis.kind} {self._redis.version()} at {self._redis.url}, data in {folder}")
        ledger = Ledger(folder / "effects.jsonl")
        with Fleet(self._redis.url, name=FLEET, timeout=CLIENT_SECONDS) as fleet:
            self._fleet = fleet
            self._broker = Broker(self._redis.url, FLEET)
            self._outside = Outside(fleet, self._scripts, ledger)
            self._crew = Crew(
                self._session.children,
                size=options.workers,
                folder=folder,
                environment={
                    "TURNFLEET_REDIS_URL": self._redis.url,
                    "TURNFLEET_NAME": FLEET,
                    LEDGER_VARIABLE: str(ledger.path),
                },
                note=self._show.note,
                known=lambda: self._outside.announced,
            )
            try:
                return self._go(ledger)
            finally:
                self._outside.over.set()
                self._crew.disband()

    def _go(self, ledger: Ledger) -> Report:
        self._await_workers()
        options, outside = self._options, self._outside
        outside.began = time.monotonic()
        threads = outside.start(self._scripts[:: max(1, len(self._scripts) // FOLLOWED)][:FOLLOWED])
        faults = list(plan_faults(options.seed, seconds=options.seconds, lease_seconds=SETTINGS.lease_seconds))
        while (passed := self._tick()) < options.seconds:
            if faults and faults[0].at <= passed:
                self._inject(faults.pop(0))
        self._show.note("settle", "the faults are over; what is under way runs to its end")
        self._crew.settle()
        self._redis.bring_back()
        limit = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < limit and len(outside.ended) < len(self._scripts):
            self._tick()
        ended = self._read_ends()
        outside.over.set()
        for thread in threads:
            thread.join(CLIENT_SECONDS)
        if outside.failures:
            raise outside.failures[0]
        return self._report(ledger, ended)

    def _await_workers(self) -> None:
        limit = time.monotonic() + READY_SECONDS
        self._crew.tick()
        while len(self._crew.ready()) < self._options.workers:
            self._session.children.check()
            if time.monotonic() > limit:
                raise TurnfleetError(f"the workers were not ready after {READY_SECONDS:.0f} s; see their logs")
            time.sleep(TICK_SECONDS)
            self._outside.announced = frozenset(str(each.get("worker")) for each in self._fleet.workers())
        self._show.note("workers", ", ".join(f"{hand.number} (pid {hand.pid})" for hand in self._crew.hands))

    def _tick(self) -> float:
        time.sleep(TICK_SECONDS)
        self._crew.tick()
        if self._redis.tick():
            self._show.note("redis", "the server is back")
        outside, options = self._outside, self._options
        if outside.failures:
            raise outside.failures[0]
        passed = time.monotonic() - outside.began
        self._show.progress(
            Progress(
                seconds=passed,
                total=options.seconds,
                enqueued=len(outside.enqueued),
                ended=len(outside.ended),
                runs=len(self._scripts),
                at_work=sum(1 for hand in self._crew.hands if hand.shape is Shape.AT_WORK),
                workers=options.workers,
                faults=self._faults.total(),
            )
        )
        return passed

    # -- faults

    def _inject(self, fault: Fault) -> None:
        try:
            done = self._perform(fault)
        except (redis.RedisError, FleetUnavailable):
            done = ""  # the server is away, and with it whatever this fault would have hit
        if done:
            self._faults[fault.kind] += 1
            self._show.note("fault", f"{fault.kind}: {done}")
        else:
            self._missed[fault.kind] += 1

    def _perform(self, fault: Fault) -> str:
        """Do what the fault says and tell what was done; empty when there was nothing to do it to."""
        match fault.kind:
            case "kill -9 worker" | "freeze worker":
                done = self._hit(fault)
            case "rolling restart":
                self._crew.roll()
                done = "one worker after the other, by SIGTERM"
            case "restart Redis" | "kill -9 Redis":
                done = "" if self._redis.down else f"it is away for {fault.seconds:.1f} s"
                if done:
                    self._redis.take_away(fault.seconds, kill=fault.kind == "kill -9 Redis")
            case "cut connections":
                done = f"{self._redis.cut_connections()} connections"
            case "duplicate messages":
                done = _count(self._broker.duplicate(self._some_runs()))
            case "steal messages":
                done = _count(len(self._broker.steal()))
            case _:
                assert_never(fault.kind)
        return done

    def _hit(self, fault: Fault) -> str:
        ready = self._crew.ready()
        if not ready:
            return ""
        hand = self._dice.choice(ready)
        pid, held = hand.pid, self._held_by(hand)
        self._losses.append(Loss(time.time(), held))
        if fault.kind == "freeze worker":
            self._crew.freeze(hand, fault.seconds)
            return f"worker {hand.number} (pid {pid}) with {len(held)} runs, for {fault.seconds:.1f} s"
        self._crew.kill(hand, fault.seconds)
        return f"worker {hand.number} (pid {pid}) with {len(held)} runs in its hands"

    def _held_by(self, hand: Hand) -> tuple[str, ...]:
        try:
            running = self._fleet.runs(state="running", limit=500)
        except FleetUnavailable:
            return ()
        return tuple(run.run_id for run in running if run.worker == name_of(hand.pid))

    def _some_runs(self) -> list[str]:
        known = sorted(set(self._outside.enqueued) - set(self._outside.ended))
        ended = sorted(self._outside.ended)
        some = self._dice.sample(known, min(DUPLICATED, len(known)))
        return some + self._dice.sample(ended, min(2, len(ended)))

    # -- the end

    def _read_ends(self) -> dict[str, End]:
        ends: dict[str, End] = {}
        for run_id, status in self._outside.ended.items():
            try:
                stream = read_stream(self._fleet.run(run_id))
            except (TurnfleetError, TimeoutError) as error:
                ends[run_id] = End(status.state, status.error or "", problem=f"{type(error).__name__}: {error}")
            else:
                ends[run_id] = End(status.state, status.error or "", stream)
        return ends

    def _where(self, script: Script) -> str:
        """Say where a run is that has not ended."""
        if script.run_id not in self._outside.enqueued:
            return "it could not be enqueued in time"
        try:
            status = self._fleet.run(script.run_id).status()
        except TurnfleetError as error:
            return str(error)
        return f"it is {status.state}, claimed {status.attempts} times, last by {status.worker or 'nobody'}"

    def _report(self, ledger: Ledger, ends: dict[str, End]) -> Report:
        outside, options = self._outside, self._options
        evidence = Evidence(
            scripts=self._scripts,
            ends=ends,
            record=ledger.read(),
            frozen=self._crew.frozen,
            cancelled=outside.cancelled,
            followed=outside.followed,
            unended={script.run_id: self._where(script) for script in self._scripts if script.run_id not in ends},
        )
        streams = {run_id: end.stream for run_id, end in ends.items()}
        self._write_down(streams)
        return Report(
            seed=options.seed,
            asked=options.seconds,
            seconds=time.monotonic() - outside.began,
            workers=options.workers,
            verdict=judge(evidence),
            recovery=spread(recoveries(self._losses, streams)),
            resume=spread(resumes(outside.resumptions, streams)),
            faults=self._faults,
            missed=self._missed,
            processes=self._crew.counts,
            versions=versions(self._redis.kind, self._redis.version()),
        )

    def _write_down(self, streams: Mapping[str, Sequence[Seen]]) -> None:
        """Leave beside the ledger what else the verdict rests on, for whoever wants to know why."""
        told = {
            "streams": {run_id: [astuple(seen) for seen in stream] for run_id, stream in streams.items()},
            "frozen": [asdict(nap) for nap in self._crew.frozen],
            "losses": [asdict(loss) for loss in self._losses],
            "cancelled": self._outside.cancelled,
            "scripts": [{**asdict(script), "refused": sorted(script.refused)} for script in self._scripts],
        }
        (self._session.folder / "evidence.json").write_text(json.dumps(told))


def _count(messages: int) -> str:
    return f"{messages} messages" if messages else ""
