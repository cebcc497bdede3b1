"""Which node of a Redis Cluster has which slots: read, not asked for, here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.crc import key_slot

WORDS: Final = ("CLUSTER", "SLOTS")
"""What any node is asked."""

Node = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The masters of a cluster by their ranges of slots (both ends included), as one node knew them."""

    ranges: tuple[tuple[int, int, Node], ...] = ()

    def master(self, key: str | bytes) -> Node | None:
        """Return the node that has a key's (or a sharded channel's) slot; None when none is known."""
        slot = key_slot(key.encode() if isinstance(key, str) else key)
        return next((node for first, last, node in self.ranges if first <= slot <= last), None)

    @property
    def masters(self) -> tuple[Node, ...]:
        """Every node that has a slot, once."""
        return tuple(dict.fromkeys(node for _, _, node in self.ranges))


def read_topology(reply: Any, asked: Node) -> Topology:
    """Read the answer to `WORDS`. A node that does not know its own address stands under the one that was `asked`."""
    return Topology(tuple((int(first), int(last), _node(master, asked)) for first, last, master, *_ in reply))


def _node(told: Sequence[Any], asked: Node) -> Node:
    host = told[0].decode() if isinstance(told[0], bytes) else told[0]
    return (host or asked[0], int(told[1]))


def to_ask(topology: Topology, seeds: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes that can be asked for a newer topology, in this order: those known, then those of the URL."""
    return tuple(dict.fromkeys((*topology.masters, *seeds)))
