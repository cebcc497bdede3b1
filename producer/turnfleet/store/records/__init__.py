"""What goes into the store and what comes out of it: plain frozen values.

Times are milliseconds since the epoch by Redis' own clock, unless a name says otherwise. Plans, requests, events,
journal entries, outcomes and decisions are JSON objects that the store carries and does not read.
"""

from turnfleet.store.records.claims import Beat, Claim, ClaimLike, ClaimRef, NotClaimed, StepAck
from turnfleet.store.records.people import NewDecision, Resumed, StoredInterrupt
from turnfleet.store.records.runs import Cancelled, Created, Ended, Ending, EndState, NewRun, Offer, Previous
from turnfleet.store.records.sweeping import EndedRun, LostTask, SweepPolicy, Swept
from turnfleet.store.records.views import Definition, EventsPage, InboxEntry, Snapshot

__all__ = [
    "Beat",
    "Cancelled",
    "Claim",
    "ClaimLike",
    "ClaimRef",
    "Created",
    "Definition",
    "EndState",
    "Ended",
    "EndedRun",
    "Ending",
    "EventsPage",
    "InboxEntry",
    "LostTask",
    "NewDecision",
    "NewRun",
    "NotClaimed",
    "Offer",
    "Previous",
    "Resumed",
    "Snapshot",
    "StepAck",
    "StoredInterrupt",
    "SweepPolicy",
    "Swept",
]
