"""The run store: the record is the truth, the broker is a hint (DESIGN 1). Both wings meet here."""

from turnfleet.store import commands
from turnfleet.store.command import Command
from turnfleet.store.keys import Keys, validate_id

__all__ = ["Command", "Keys", "commands", "validate_id"]
