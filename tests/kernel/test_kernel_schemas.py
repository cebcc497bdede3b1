"""Checking values against JSON Schemas that others wrote: nothing is fetched, nothing crashes."""

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.kit import walk

from turnfleet_kernel import Answer, Edit, Interrupt, InvalidDecision, Reject, ToolRequest
from turnfleet_kernel.contracts.decisions import check_decision
from turnfleet_kernel.contracts.frozen import freeze
from turnfleet_kernel.contracts.schema import schema_problem
from turnfleet_kernel.testing import ToolBox, calls, make_plan


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """Serve a schema over HTTP, and note who asks for it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/schema.json", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_reference_to_elsewhere_is_not_fetched(elsewhere: tuple[str, list[str]]) -> None:
    """The schema cannot be used, and no request leaves this process (TOL-3)."""
    url, asked = elsewhere
    problem = schema_problem({"type": "object", "properties": {"a": {"$ref": url}}}, {"a": 1})
    assert problem == "the schema to check it by cannot be used (WrappedReferencingError)"
    assert asked == []


UNUSABLE: dict[str, Any] = {
    "no such type": {"type": "number of apples"},
    "wrong keyword": {"type": "object", "properties": {"a": {}}, "required": 3},
    "odd required": {"type": "object", "properties": {"a": {}}, "required": [3]},
    "leads nowhere": {"$ref": "#/$defs/missing"},
    "no pattern": {"type": "object", "properties": {"a": {"pattern": "("}}},
    "itself for ever": {"$ref": "#"},
    "no schema at all": [1],
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_a_schema_that_cannot_be_used_breaks_no_run(name: str) -> None:
    """The model is told, and nothing was called (TOL-2, TOL-3)."""
    called: list[Any] = []
    tools = ToolBox({"pay": lambda **given: called.append(given)}, schemas={"pay": UNUSABLE[name]})
    seen = await walk(make_plan([calls(ToolRequest("c", "pay", {"a": "x"})), "sorry"], tools=tools))
    error = seen.ctx.tool_outcomes[0].error
    assert error is not None
    assert error.startswith("the arguments do not fit the schema of 'pay': the schema to check it by cannot be used")
    assert (seen.text, called) == ("sorry", [])


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_decision_on_it_is_refused_by_name_and_a_rejection_is_not(name: str) -> None:
    """The interrupt stays decidable (HK-6)."""
    question = Interrupt("q", "question", {"schema": UNUSABLE[name]})
    approval = Interrupt("a", "approval", {"schema": UNUSABLE[name]})
    with pytest.raises(InvalidDecision, match=r"'q'.*cannot be used"):
        check_decision(question, Answer({"a": "x"}))
    with pytest.raises(InvalidDecision, match=r"'a'.*cannot be used"):
        check_decision(approval, Edit({"a": "x"}))
    check_decision(question, Reject())


PLAIN = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "number": {"type": "number", "description": "any"},
        "flag": {"type": "boolean", "default": False},
        "free": {},
        "either": {"type": ["string", "null"]},
    },
    "required": ["text"],
}


@pytest.mark.parametrize(
    "value",
    [
        {"text": "x"},
        {"text": "x", "whole": 1, "number": 1.5, "flag": True},
        {"text": "x", "whole": 1.0},
        {"text": "x", "whole": True},
        {"text": "x", "number": True},
        {"text": "x", "flag": 1},
        {"text": 1},
        {},
        {"text": "x", "free": [1, {"a": None}]},
        {"text": "x", "either": None},
        {"text": "x", "either": 2},
        {"text": "x", "more": 1},
        [],
        "x",
    ],
    ids=str,
)
@pytest.mark.parametrize("closed", [False, True])
def test_the_short_way_decides_as_the_long_one_does(value: Any, *, closed: bool) -> None:
    """Plain objects are accepted at a glance; the answer is that of a full validation (TOL-3)."""
    plain = {**PLAIN, "additionalProperties": not closed}
    in_full = {"allOf": [plain]}
    assert (schema_problem(plain, value) is None) == (schema_problem(in_full, value) is None)
    assert (schema_problem(freeze(plain), freeze(value)) is None) == (schema_problem(in_full, value) is None)
