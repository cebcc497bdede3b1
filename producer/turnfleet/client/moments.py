"""Times as callers give them: seconds from now, a timedelta, or an aware datetime. The fleet's clock is Redis'."""

import math
from datetime import datetime, timedelta
from typing import TypeAlias

from turnfleet.errors import InvalidEnvelope
from turnfleet.wire.limits import LATEST

Span: TypeAlias = float | timedelta
Moment: TypeAlias = Span | datetime


def seconds_of(name: str, span: Span) -> float:
    """Return a span in seconds. Raises `InvalidEnvelope`, naming the option, unless it is finite and not negative."""
    seconds: object = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        raise InvalidEnvelope(f"{name} is a number of seconds from now, 0 or more, or a timedelta")
    return float(seconds)


def unix_of(name: str, moment: datetime) -> float:
    """Return a datetime as Unix seconds. Raises `InvalidEnvelope`, naming the option, when it has no time zone."""
    if not isinstance(moment, datetime):
        raise InvalidEnvelope(f"{name} is a datetime with a time zone, not a {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise InvalidEnvelope(
            f"{name} {moment.isoformat()} has no time zone, so it names no moment: datetime.now(UTC) has one"
        )
    return moment.timestamp()


def at(name: str, moment: Moment, now: float) -> float:
    """Return a moment as Unix seconds; spans count from `now` (Unix seconds, by the fleet's clock)."""
    if isinstance(moment, datetime):
        return unix_of(name, moment)
    then = now + seconds_of(name, moment)
    if then > LATEST:
        raise InvalidEnvelope(f"{name} lies behind the year 9999: leave it out if there is to be no limit")
    return then
