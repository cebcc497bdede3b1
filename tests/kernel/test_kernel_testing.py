"""The test kit that ships with the kernel: its examples run, and its parts do what they say."""

import ast
import asyncio
import inspect
import re
import textwrap
from typing import Any

import pytest
from kernel.kit import ASK, walk

import turnfleet_kernel
from turnfleet_kernel import Delta, ModelTurn, RunIdentity, ToolRequest, TurnRequest, testing
from turnfleet_kernel.testing import RecordingSink, ScriptedModel, call, calls, make_plan

EXAMPLES = re.findall(r"^(\S[^\n]*)::\n\n((?:(?:    [^\n]*)?\n)+)", str(testing.__doc__), re.MULTILINE)


@pytest.mark.parametrize("title", [title for title, _ in EXAMPLES])
async def test_the_examples_run(title: str) -> None:
    """As they stand in the documentation, with what the kernel and the kit export."""
    source = textwrap.dedent(dict(EXAMPLES)[title])
    assert "assert" in source
    code = compile(source, title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = {name: getattr(turnfleet_kernel, name) for name in turnfleet_kernel.__all__}
    names |= {name: getattr(testing, name) for name in testing.__all__}
    running = eval(code, names)  # noqa: S307 - our own documentation
    if inspect.isawaitable(running):
        await running


def test_there_are_examples() -> None:
    """All of them are found."""
    assert len(EXAMPLES) == str(testing.__doc__).count("::\n")
    assert len(EXAMPLES) >= 5


async def test_a_script_that_is_too_short_says_so() -> None:
    """With the number of the step that is missing."""
    seen = await walk(make_plan([call("add", a=1)], tools={"add": lambda a: a}))
    assert isinstance(seen.raised, AssertionError)
    assert str(seen.raised) == "the script has 1 steps; step 2 was asked for"


async def test_a_script_is_said_from_the_first_step_in_each_run() -> None:
    """Also when runs take turns."""
    model = ScriptedModel([call("add", a=1), "end"])
    plan = make_plan(model, tools={"add": lambda a: a})
    assert [(await walk(plan)).text, (await walk(plan)).text] == ["end", "end"]


def test_calls_are_put_together_from_requests_or_from_turns() -> None:
    """Both are at hand where a script is written."""
    one, two = ToolRequest("c1", "add", {"a": 1}), ToolRequest("c2", "add", {"a": 2})
    assert calls(one, two) == calls(call("add", "c1", a=1), two) == calls(calls(one, two))
    assert calls(one, two).tool_requests == (one, two)


async def test_a_step_that_was_cut_off_is_taken_again() -> None:
    """While the model thinks, and between two words: nobody has had that turn."""
    model = ScriptedModel([(0.01, "one two"), "end"])
    thinking = asyncio.ensure_future(model.invoke([]))
    await asyncio.sleep(0)
    thinking.cancel()
    await asyncio.wait({thinking})
    speaking: Any = model.stream([]).deltas()
    assert (await anext(speaking)).text == "one"
    await speaking.aclose()
    assert [(await model.invoke([])).text for _ in range(2)] == ["one two", "end"]


async def test_a_streamed_step_comes_word_by_word() -> None:
    """Nothing is lost between the words; a turn that says what to show shows that."""
    for text in ("one two", " one  two ", "", "\n", "one"):
        seen = await walk(make_plan([text]))
        assert seen.text == text
    shown = ModelTurn("text", shown=(Delta("reasoning", "hm"),))
    assert (await walk(make_plan([shown]))).kinds == ["reasoning_delta", "done"]


async def test_a_sink_remembers_runs_and_events() -> None:
    """One list for all runs that it was bound to."""
    sink = RecordingSink()
    plan = make_plan(["x"], sink=sink)
    await walk(plan, TurnRequest("p", metadata={"n": 1}), run_id="a")
    await walk(plan, ASK, run_id="b")
    bound: list[Any] = [(RunIdentity.root("a"), {"n": 1}), (RunIdentity.root("b"), {})]
    assert (sink.bound, sink.closed, sink.kinds) == (bound, 2, ["text_delta", "usage", "done"] * 2)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ("hello", r"a script is a list of steps: ScriptedModel\(\['hello'\]\)"),
        (["hello", {"text": "hi"}], "step 2 of the script is a dict; a step is a text, a turn"),
        ([(1, 2, "hi")], "step 1 of the script is a tuple"),
        ([(0.1, None)], "step 1 of the script is a NoneType"),
    ],
)
def test_what_is_no_script_is_refused(steps: Any, says: str) -> None:
    """A lone text would be said letter by letter, a round for each."""
    with pytest.raises(TypeError, match=says):
        ScriptedModel(steps)
