"""The verdict must be able to say no: fabricated evidence, each with one fault that it has to find."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from turnfleet_worker.chaos.crew import Frozen
from turnfleet_worker.chaos.ledger import Effect, Record, Reply, Turn
from turnfleet_worker.chaos.people import Resumption, Seen
from turnfleet_worker.chaos.report import Loss, recoveries, resumes
from turnfleet_worker.chaos.verdict import End, Evidence, Verdict, judge, judge_follower, judge_stream
from turnfleet_worker.chaos.workload import APPROVED, ASKED, KEYED, Script
from turnfleet_worker.local.figures import spread

RUN = "run"
SLOT = "run/0"
WHOLE = tuple(Seen(index, kind, 100.0 + index) for index, kind in enumerate(["text_delta", "tool_call", "done"]))


def script(tool: str = ASKED, **more: object) -> Script:
    """Give a script of one run with one thing to do."""
    plain = Script(run_id=RUN, kind="in doubt", at=0.0, steps=(), slots={SLOT: tool})
    return replace(plain, **more)  # type: ignore[arg-type] # a test's own words


def effect(at: float = 110.0, *, pid: int = 1, call: str = "c1", tool: str = ASKED, slot: str = SLOT) -> Effect:
    """Give an effect that began a second before it was made."""
    return Effect(RUN, slot, call, tool, "in doubt", pid, at - 1.0, at)


def retry(looked: float) -> Reply:
    """Give a person's "retry"."""
    return Reply(SLOT, "in_doubt", "retry", "person", looked)


def verdict_on(
    *effects: Effect,
    replies: Sequence[Reply] = (),
    frozen: Sequence[Frozen] = (),
    cancelled: Mapping[str, float] | None = None,
    of: Script | None = None,
    end: End | None = None,
) -> Verdict:
    """Judge one run of one slot."""
    judged = of or script()
    return judge(
        Evidence(
            scripts=[judged],
            ends={RUN: end or End("completed", stream=WHOLE)},
            record=Record(effects, tuple(replies)),
            frozen=frozen,
            cancelled=cancelled or {},
        )
    )


def test_an_effect_that_was_made_once_is_good() -> None:
    """One effect, one whole stream: nothing to complain about."""
    verdict = verdict_on(effect())
    assert (verdict.good, verdict.once, verdict.runs["completed"], verdict.streams) == (True, 1, 1, 1)


# -- runs


def test_a_run_without_an_end_is_lost() -> None:
    """A run that never ended, or that the fleet does not know any more, is lost."""
    verdict = judge(Evidence(scripts=[script()], ends={}, record=Record(), unended={RUN: "it is queued"}))
    assert verdict.lost == ["run run (in doubt) did not end: it is queued"]
    assert (verdict.runs["lost"], verdict.good) == (1, False)


def test_a_run_that_ends_otherwise_than_its_script_is_lost() -> None:
    """A dead letter is inspectable, and still not what was asked for."""
    verdict = verdict_on(end=End("failed", "WorkerLost: 5 workers", (*WHOLE[:2], Seen(2, "error", 102.0))))
    assert verdict.lost == ["run run (in doubt) ended failed, which its script does not: WorkerLost: 5 workers"]


def test_a_run_that_fails_for_another_reason_than_its_scripts_is_lost() -> None:
    """A run that is to spend its deadline may fail by that and by nothing else."""
    of = script(ends={"failed": "DeadlineExceeded"})
    stream = (*WHOLE[:2], Seen(2, "error", 102.0))
    assert verdict_on(of=of, end=End("failed", "DeadlineExceeded: 2 s", stream)).good
    assert not verdict_on(of=of, end=End("failed", "StepGap: a hole", stream)).good


def test_a_cancel_that_was_acknowledged_must_be_what_ended_the_run() -> None:
    """True from cancel() means that the intent came first (DESIGN 5)."""
    of = script(ends={"completed": "", "cancelled": ""})
    verdict = verdict_on(effect(), of=of, cancelled={RUN: 120.0})
    assert verdict.lost == ["run run (in doubt) ended completed, though its cancel was acknowledged before"]


# -- effects


def test_a_repeat_that_nobody_allowed_is_unexplained() -> None:
    """Twice, and nobody was asked."""
    verdict = verdict_on(effect(110.0), effect(120.0, pid=2))
    assert verdict.unexplained == [
        "run/0 (pay_asked) was made 2 times, by the processes 1, 2; asked about it was: nobody"
    ]
    assert not verdict.good


def test_a_retry_alone_does_not_explain_a_repeat() -> None:
    """Who said "retry" had looked and found nothing: something then made the first effect after that."""
    verdict = verdict_on(effect(110.0), effect(120.0, pid=2), replies=[retry(109.0)])
    assert len(verdict.unexplained) == 1


def test_a_repeat_under_the_same_key_is_explained() -> None:
    """The tool said that it may be called again with the same call id: the receiver knows it by that."""
    verdict = verdict_on(effect(tool=KEYED), effect(tool=KEYED, pid=2), of=script(KEYED))
    assert (verdict.good, verdict.once, verdict.keyed) == (True, 0, 1)


def test_a_repeat_under_another_key_is_unexplained() -> None:
    """For the receiver another call id is another payment."""
    verdict = verdict_on(effect(tool=KEYED), effect(tool=KEYED, call="c2"), of=script(KEYED))
    assert verdict.unexplained == ["run/0 (pay_keyed) was made under several call ids: c1, c2"]


def test_a_frozen_worker_that_wakes_after_the_retry_is_explained() -> None:
    """DESIGN's one window: stopped before the effect, somebody looks and says retry, then it wakes and makes it."""
    verdict = verdict_on(
        effect(112.0, pid=2), effect(120.5, pid=1), replies=[retry(111.0)], frozen=[Frozen(1, 105.0, 120.0)]
    )
    assert (verdict.good, verdict.late) == (True, 1)


@pytest.mark.parametrize(
    ("frozen", "replies"),
    [
        ([Frozen(3, 105.0, 120.0)], [retry(111.0)]),
        ([Frozen(1, 105.0, 120.0)], []),
        ([Frozen(1, 105.0, 120.0)], [Reply(SLOT, "in_doubt", "approve", "person", 111.0)]),
        ([Frozen(1, 112.0, 120.0)], [retry(111.0)]),
        ([Frozen(1, 105.0, 113.0)], [retry(111.0)]),
        ([Frozen(1, 105.0, 125.0)], [retry(111.0)]),
    ],
    ids=[
        "another process",
        "nobody asked",
        "said it happened",
        "frozen after the look",
        "woke long ago",
        "still frozen",
    ],
)
def test_without_the_whole_evidence_the_window_explains_nothing(
    frozen: Sequence[Frozen], replies: Sequence[Reply]
) -> None:
    """The right process, asleep while somebody looked and said retry, and awake just before: each is needed."""
    verdict = verdict_on(effect(112.0, pid=2), effect(120.5, pid=1), replies=replies, frozen=frozen)
    assert (len(verdict.unexplained), verdict.late) == (1, 0)


def test_one_frozen_worker_explains_one_repeat_and_not_two() -> None:
    """Three effects need two frozen workers."""
    verdict = verdict_on(
        effect(112.0, pid=2),
        effect(113.0, pid=4),
        effect(120.5, pid=1),
        replies=[retry(111.0)],
        frozen=[Frozen(1, 105.0, 120.0)],
    )
    assert len(verdict.unexplained) == 1


def test_an_effect_without_its_approval_is_unexplained() -> None:
    """Nobody approved it, or it had begun before somebody did."""
    of, made = script(APPROVED), effect(tool=APPROVED)
    early, late = (Reply(SLOT, "approval", "approve", "person", at) for at in (105.0, 109.5))
    rejected = replace(early, answer="reject")
    assert verdict_on(made, of=of, replies=[early]).good
    for replies in ([], [late], [rejected]):
        assert verdict_on(made, of=of, replies=replies).unexplained == [
            "run/0 (pay_approved) was made, and nobody had approved it"
        ]


def test_an_effect_that_begins_after_an_acknowledged_cancel_is_unexplained() -> None:
    """No tool starts after True (DESIGN 5); one that was frozen on its way is the window again."""
    of, end = script(ends={"cancelled": ""}), End("cancelled", stream=(*WHOLE[:2], Seen(2, "cancelled", 102.0)))
    assert verdict_on(effect(110.0), of=of, end=end, cancelled={RUN: 108.0}).good
    assert verdict_on(effect(110.0), of=of, end=end, cancelled={RUN: 106.0}).unexplained == [
        "run/0 (pay_asked) began 3.0 s after its run's cancel was acknowledged"
    ]
    nap = [Frozen(1, 100.0, 108.5)]
    assert verdict_on(effect(110.0), of=of, end=end, cancelled={RUN: 106.0}, frozen=nap).good


def test_a_completed_run_must_have_made_its_effects() -> None:
    """Said to be done and not in the file: worse than done twice. What the person rejected is not missed."""
    assert verdict_on().unexplained == ["run/0 (pay_asked) was never made, and the run says that it completed"]
    assert verdict_on(of=script(APPROVED, refused=frozenset({SLOT}))).good


def test_an_effect_that_no_script_has_is_unexplained() -> None:
    """Nobody asked for it."""
    assert verdict_on(effect(), effect(slot="other/7")).unexplained == ["other/7 was made, and no script has it"]


# -- streams


@pytest.mark.parametrize(
    ("indices", "kinds", "state", "complaint"),
    [
        ([0, 2], ["tool_call", "done"], "completed", "hole or a repeat at index 1"),
        ([0, 1, 1], ["tool_call", "usage", "done"], "completed", "hole or a repeat at index 2"),
        ([1, 2], ["tool_call", "done"], "completed", "hole or a repeat at index 0"),
        ([0, 1], ["tool_call", "usage"], "completed", "terminal events at no index"),
        ([0, 1, 2], ["tool_call", "done", "usage"], "completed", "terminal events at [1]"),
        ([0, 1], ["done", "done"], "completed", "terminal events at [0, 1]"),
        ([], [], "completed", "terminal events at no index"),
        ([0, 1], ["tool_call", "done"], "cancelled", "ends with 'done' and its state is 'cancelled'"),
    ],
)
def test_a_stream_that_is_not_whole_is_found(
    indices: Sequence[int], kinds: Sequence[str], state: str, complaint: str
) -> None:
    """Indices from 0 without a hole, one terminal event, last, and of the run's state (EVT-2, EVT-4)."""
    stream = [Seen(index, kind, 100.0) for index, kind in zip(indices, kinds, strict=True)]
    assert complaint in judge_stream(RUN, stream, state)
    assert not verdict_on(effect(), end=End(state, stream=tuple(stream))).good


def test_a_stream_that_cannot_be_read_is_broken() -> None:
    """What was trimmed or does not end is no stream that anybody could follow."""
    verdict = verdict_on(effect(), end=End("completed", problem="TimeoutError: no event"))
    assert verdict.broken == ["run run: its stream could not be read: TimeoutError: no event"]


def test_who_followed_live_must_have_seen_the_same() -> None:
    """A reader who came back with after=N through every outage has what the log has, each once (DESIGN 3)."""
    assert judge_follower(RUN, WHOLE, WHOLE) == ""
    for seen in (WHOLE[:2], (*WHOLE, WHOLE[-1]), (WHOLE[1], WHOLE[0], WHOLE[2])):
        evidence = Evidence(
            scripts=[script()],
            ends={RUN: End("completed", stream=WHOLE)},
            record=Record((effect(),)),
            followed={RUN: seen},
        )
        assert len(judge(evidence).broken) == 1


# -- figures


def test_turns_that_were_bought_again_are_counted() -> None:
    """The same round of the same run asked of the model twice: its first answer was cut off."""
    record = Record((effect(),), turns=(Turn(RUN, 0, 1), Turn(RUN, 1, 1), Turn(RUN, 1, 2)))
    verdict = judge(Evidence(scripts=[script()], ends={RUN: End("completed", stream=WHOLE)}, record=record))
    assert (verdict.turns, verdict.turns_again) == (2, 1)


def test_recovery_is_measured_from_the_loss_to_the_next_invocation() -> None:
    """A run that had paused or ended in that very moment recovers from nothing, and is left out."""
    streams = {
        "a": [Seen(0, "tool_call", 99.0), Seen(1, "resumed", 105.5), Seen(2, "done", 106.0)],
        "b": [Seen(0, "tool_call", 99.0), Seen(1, "approval", 100.1), Seen(2, "resumed", 130.0)],
    }
    assert recoveries([Loss(100.0, ("a", "b", "unheard of"))], streams) == [5.5]


def test_resuming_is_measured_from_the_decision_to_the_next_invocation() -> None:
    """Marks from before the decision are another invocation's."""
    streams = {"a": [Seen(0, "resumed", 99.0), Seen(1, "question", 100.0), Seen(2, "resumed", 102.25)]}
    assert resumes([Resumption("a", 102.0), Resumption("b", 102.0)], streams) == [0.25]


def test_a_spread_names_values_that_were_measured() -> None:
    """Of a hundred values the 99th percentile is the largest but none; of none there is none."""
    figures = spread([float(value) for value in range(100)])
    assert (figures.count, figures.p50, figures.p99) == (100, 50.0, 99.0)
    assert spread([]).p50 is None
