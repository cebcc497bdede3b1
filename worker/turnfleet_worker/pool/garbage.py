"""How a worker process looks for garbage: seldom, and not in what it was loaded with.

A run leaves no cycles behind, so its memory goes with its end. What the collector would look through time and again
is all the modules of the process, a tenth of a second each time, while every run in it waits.
"""

import gc
from typing import Final

__all__ = ["spare_the_collector"]

YOUNG_OBJECTS: Final = 10_000
"""New objects after which young garbage is looked for. Hundreds of runs at once make Python's own 700 in no time."""


def spare_the_collector() -> None:
    """Leave everything that there is now out of all collections to come. A higher threshold, or none (0), stays."""
    gc.freeze()
    young, *older = gc.get_threshold()
    if young:
        gc.set_threshold(max(young, YOUNG_OBJECTS), *older)
