"""The worker processes of a chaos: started, killed, frozen, stopped, and always started again.

Everything happens in the thread that owns the child processes; `tick()` does what has become due and never waits.
"""

import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from turnfleet_worker.local.processes import Child, Children
from turnfleet_worker.local.session import worker_command

APP: Final = "turnfleet_worker.chaos.fleet"
CONCURRENCY: Final = 16
ABSENT_SECONDS: Final = 0.5
STOPPED_IN_SECONDS: Final = 15.0
"""How long a worker may take to end after SIGTERM: its drain, and what Celery needs beyond it."""


FATES: Final = ("killed by us", "stopped by us", "ended by themselves", "gave up starting", "had to be killed")
"""What may become of a worker process. The last is one that did not end when it was asked to; one gives up starting
where there is no Redis at that moment, and is started again."""


class Shape(Enum):
    """What a hand is."""

    AT_WORK = "at work"
    FROZEN = "frozen"
    STOPPING = "stopping"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Frozen:
    """A worker that was stopped for a while: from SIGSTOP to SIGCONT, in Unix seconds."""

    pid: int
    began: float
    ended: float


@dataclass(slots=True)
class Hand:
    """A place in the crew and the process that holds it now. `until`: when its shape is over (monotonic)."""

    number: int
    child: Child | None = None
    shape: Shape = Shape.AWAY
    until: float = 0.0
    frozen_at: float = 0.0
    was_ready: bool = False

    @property
    def pid(self) -> int:
        """The process's id; 0 when there is none."""
        return self.child.process.pid if self.child else 0


class Crew:
    """`size` workers. `note(what, text)` is told what happens; `known()` gives the names of announced workers."""

    def __init__(
        self,
        children: Children,
        *,
        size: int,
        folder: Path,
        environment: Mapping[str, str],
        note: Callable[[str, str], None],
        known: Callable[[], frozenset[str]],
    ) -> None:
        self._children = children
        self._folder = folder
        self._environment = environment
        self._note = note
        self._known = known
        self._rolling: deque[Hand] = deque()
        self.hands = tuple(Hand(number + 1) for number in range(size))
        self.frozen: list[Frozen] = []
        self.counts: Counter[str] = Counter()
        """What became of processes: started, and the `FATES`."""

    def tick(self) -> None:
        """Wake, start and restart what is due."""
        now = time.monotonic()
        known = self._known()
        for hand in self.hands:
            hand.was_ready = hand.was_ready or name_of(hand.pid) in known
            match hand.shape:
                case Shape.AWAY if now >= hand.until:
                    self._start(hand)
                case Shape.FROZEN if now >= hand.until:
                    self._thaw(hand)
                case Shape.STOPPING:
                    self._await_end(hand, now)
                case Shape.AT_WORK if hand.child is not None and not hand.child.running:
                    self._mourn(hand)
        if self._rolling and not any(hand.shape is Shape.STOPPING for hand in self.hands):
            self._roll_on()

    def ready(self) -> list[Hand]:
        """Return the hands that work and are known to the fleet."""
        known = self._known()
        return [hand for hand in self.hands if hand.shape is Shape.AT_WORK and name_of(hand.pid) in known]

    def kill(self, hand: Hand, away: float) -> None:
        """End a worker as `kill -9` does; another takes its place after `away` seconds."""
        assert hand.child is not None
        hand.child.signal_group(signal.SIGKILL)
        self.counts["killed by us"] += 1
        self._leave(hand, away)

    def freeze(self, hand: Hand, seconds: float) -> None:
        """Stop a worker in its tracks for a while; it does not notice."""
        assert hand.child is not None
        hand.shape, hand.until, hand.frozen_at = Shape.FROZEN, time.monotonic() + seconds, time.time()
        hand.child.signal_group(signal.SIGSTOP)

    def roll(self) -> None:
        """Replace the workers one after another, each asked to stop in good order."""
        self._rolling = deque(self.hands)

    def settle(self) -> None:
        """Wake who is frozen and begin no further restart: the faults are over."""
        self._rolling.clear()
        for hand in self.hands:
            if hand.shape is Shape.FROZEN:
                self._thaw(hand)

    def disband(self) -> None:
        """Kill everybody at once; nobody comes back."""
        for hand in self.hands:
            if hand.child is not None:
                hand.child.signal_group(signal.SIGKILL)

    def _start(self, hand: Hand) -> None:
        hand.child = self._children.start(
            f"Worker {hand.number}",
            worker_command(APP, concurrency=CONCURRENCY),
            log=self._folder / f"worker-{hand.number}.log",
            environment=self._environment,
        )
        hand.shape, hand.was_ready = Shape.AT_WORK, False
        self.counts["started"] += 1

    def _mourn(self, hand: Hand) -> None:
        """Note a process that ended and that nobody had told to. One that finds no Redis at its start is right to."""
        assert hand.child is not None
        fate = "ended by themselves" if hand.was_ready else "gave up starting"
        code = hand.child.process.returncode
        self._note("worker", f"worker {hand.number} (pid {hand.pid}) ended with code {code}: {fate}")
        self.counts[fate] += 1
        self._leave(hand, ABSENT_SECONDS)

    def _thaw(self, hand: Hand) -> None:
        assert hand.child is not None
        self.frozen.append(Frozen(hand.pid, hand.frozen_at, time.time()))
        hand.child.signal_group(signal.SIGCONT)
        hand.shape = Shape.AT_WORK
        self._note("thaw", f"worker {hand.number} (pid {hand.pid}) goes on after {time.time() - hand.frozen_at:.1f} s")

    def _roll_on(self) -> None:
        hand = self._rolling[0]
        if hand not in self.ready():
            # Frozen or just started: its turn comes when it works; one that is away is replaced anyway.
            if hand.shape is Shape.AWAY:
                self._rolling.popleft()
            return
        others = [other for other in self.hands if other is not hand]
        if others and not any(other in self.ready() for other in others):
            return
        self._rolling.popleft()
        assert hand.child is not None
        hand.shape, hand.until = Shape.STOPPING, time.monotonic() + STOPPED_IN_SECONDS
        hand.child.process.send_signal(signal.SIGTERM)

    def _await_end(self, hand: Hand, now: float) -> None:
        assert hand.child is not None
        if not hand.child.running:
            self.counts["stopped by us"] += 1
            self._leave(hand, 0.0)
        elif now >= hand.until:
            self._note("worker", f"worker {hand.number} (pid {hand.pid}) did not end after SIGTERM, and is killed")
            self.counts["had to be killed"] += 1
            self._leave(hand, 0.0)

    def _leave(self, hand: Hand, away: float) -> None:
        assert hand.child is not None
        # Whatever the process started shares its group, and goes with it.
        hand.child.signal_group(signal.SIGKILL)
        self._children.end(hand.child)
        hand.child, hand.shape, hand.until = None, Shape.AWAY, time.monotonic() + away


def name_of(pid: int) -> str:
    """Return the name under which a worker process of this machine announces itself and claims runs."""
    return f"{socket.gethostname()}:{pid}"
