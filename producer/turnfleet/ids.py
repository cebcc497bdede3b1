"""Names that the producer makes up: run ids and decision ids.

The kernel takes its ids from the plan's port, so that replays are deterministic; a producer makes an id once,
records it, and nothing replays it.
"""

import secrets


def new_id() -> str:
    """Return a fresh id of 32 lowercase hex digits (128 random bits), fit for URLs and for Flower's search."""
    return secrets.token_hex(16)
