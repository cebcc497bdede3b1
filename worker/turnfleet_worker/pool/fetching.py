"""Takes what waits in a Redis broker's queues in one step, and notes it as ours in the same one.

kombu pops one message a turn of the hub, then notes in a second call who has it: a worker that dies in between loses
the message. Here one script does both for as many messages as there are free slots. kombu's own pop is what waits for
the first message when there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis

__all__ = ["MOST_AT_ONCE", "Fetcher", "Taken"]

MOST_AT_ONCE: Final = 32
"""Messages that one call takes, at most: a call must not hold up the server for long."""

# KEYS: the hash and the index of unacknowledged messages as kombu keeps them, then the lists in the order of their
# turn. ARGV: how many at most, and the index' score (Unix seconds). What cannot be noted is given out all the same,
# as kombu's pop does; the caller then notes it itself, or refuses it.
_SCRIPT: Final = """
local taken, left = {}, tonumber(ARGV[1])
local function note(item)
  local read, message = pcall(cjson.decode, item)
  local properties = read and type(message) == 'table' and message.properties
  if type(properties) ~= 'table' or type(properties.delivery_info) ~= 'table' then return false end
  local tag, info = properties.delivery_tag, properties.delivery_info
  if type(tag) ~= 'string' or type(info.exchange) ~= 'string' or type(info.routing_key) ~= 'string' then
    return false
  end
  local kept = '[' .. item .. ',' .. cjson.encode(info.exchange) .. ',' .. cjson.encode(info.routing_key) .. ']'
  local indexed = redis.pcall('ZADD', KEYS[2], ARGV[2], tag)
  local stored = redis.pcall('HSET', KEYS[1], tag, kept)
  if type(indexed) == 'table' or type(stored) == 'table' then return false end
  return tag
end
for place = 3, #KEYS do
  while left > 0 do
    local item = redis.pcall('RPOP', KEYS[place])
    if type(item) ~= 'string' then break end
    taken[#taken + 1] = { place - 3, item, note(item) }
    left = left - 1
  end
end
return taken
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """A message as it lay in a list. `place`: the list's number. `tag`: its delivery tag, if it is noted as ours."""

    place: int
    item: bytes
    tag: str | None


class Fetcher:
    """Takes messages over a pool's connections; keys are given in full."""

    def __init__(self, pool: Any) -> None:
        self._script = redis.Redis(connection_pool=pool).register_script(_SCRIPT)

    def take(self, unacked: str, index: str, lists: Sequence[str], *, most: int, now: float) -> list[Taken]:
        """Take up to `most` messages, in the order of the lists, each noted with the score `now` (Unix seconds)."""
        reply: Any = self._script(keys=[unacked, index, *lists], args=[most, now])
        return [Taken(int(place), item, None if tag is None else tag.decode()) for place, item, tag in reply]
