"""What servers and sentinels need of one another, as ACL rules: for an aclfile that leaves the default user nothing.

A server logs in at its master as `masteruser`; a sentinel at the servers as `sentinel auth-user`, and at the other
sentinels as `sentinel sentinel-user`.
"""

from collections.abc import Mapping
from typing import Final

_HELLO: Final = "&__sentinel__:hello"

REPLICA_RULES: Final[Mapping[str, str]] = {"replica": "+ping +replconf +psync"}
"""The user of replicas at their master, behind Sentinel and in a cluster."""

SENTINEL_RULES: Final[Mapping[str, str]] = {
    "sentinel": (
        "+ping +info +role +multi +exec +slaveof +config|rewrite +client|setname +client|kill +script|kill "
        f"+publish +subscribe {_HELLO}"
    )
}
"""The user of sentinels at the servers that they watch."""

WATCH_RULES: Final[Mapping[str, str]] = {
    "fleet": "+@connection -@admin -@dangerous +sentinel|masters",
    "peer": f"+ping +client|setname +sentinel|is-master-down-by-addr +publish {_HELLO}",
}
"""The users at a sentinel: whoever asks it for the master, and the other sentinels."""
