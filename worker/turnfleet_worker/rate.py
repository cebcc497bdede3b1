"""How often something happens."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW_SECONDS: Final = 30.0


class Rate:
    """Occurrences a second over the last `WINDOW_SECONDS`, or since the beginning if that is shorter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._seconds: deque[tuple[int, int]] = deque(maxlen=int(WINDOW_SECONDS) + 1)

    def tick(self) -> None:
        """Note one."""
        second = int(self._clock())
        if self._seconds and self._seconds[-1][0] == second:
            second, count = self._seconds.pop()
            self._seconds.append((second, count + 1))
        else:
            self._seconds.append((second, 1))

    def per_second(self) -> float:
        """Return the rate. Safe from any thread."""
        now = self._clock()
        count = sum(count for second, count in list(self._seconds) if second > now - WINDOW_SECONDS)
        return count / max(1.0, min(WINDOW_SECONDS, now - self._began))
