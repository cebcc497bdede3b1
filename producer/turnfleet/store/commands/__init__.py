"""Every command of the store, sans-IO: builders return a `Command` that an executor runs."""

from turnfleet.store.commands.browsing import browse, run_file
from turnfleet.store.commands.claimed import beat, claim, finish, park, pause, release, step
from turnfleet.store.commands.fleet import announce, announced, clock, retract, sweep, sweep_lock, workers
from turnfleet.store.commands.looking import definition, inbox, journal, listing, outcome, read_events, status
from turnfleet.store.commands.runs import cancel, create, delete, offer_now, resume, retry, unpark
from turnfleet.store.commands.survey import survey
from turnfleet.store.commands.threads import thread_head, thread_in_front, thread_join, thread_leave

__all__ = [
    "announce",
    "announced",
    "beat",
    "browse",
    "cancel",
    "claim",
    "clock",
    "create",
    "definition",
    "delete",
    "finish",
    "inbox",
    "journal",
    "listing",
    "offer_now",
    "outcome",
    "park",
    "pause",
    "read_events",
    "release",
    "resume",
    "retract",
    "retry",
    "run_file",
    "status",
    "step",
    "survey",
    "sweep",
    "sweep_lock",
    "thread_head",
    "thread_in_front",
    "thread_join",
    "thread_leave",
    "unpark",
    "workers",
]
