"""The rule-driven model: the same transcript gives the same turn, on any pair of files."""

import asyncio
import dataclasses
import re
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import pytest

from turnfleet_kernel.contracts.values import ModelTurn, PromptAssembly, ToolOutcome, ToolRequest
from turnfleet_kernel.conversation import ListConversation
from turnfleet_worker.demo import job, tools
from turnfleet_worker.demo.ledger import Ledger
from turnfleet_worker.demo.rules import RuleModel, next_turn

conversation = ListConversation()


class Walk:
    """A whole job without kernel or fleet: turns, real tools, rounds closed into a real transcript."""

    def __init__(self, folder: Path, invoices: Path, payments: Path, refuse: Collection[str] = ()) -> None:
        self.ledger = Ledger(folder / "ledger.csv")
        self.report = folder / "report.md"
        self.refuse = refuse
        self.edits: dict[str, dict[str, Any]] = {}
        prompt = job.prompt(invoices, payments, self.report)
        self.transcript = conversation.open_turn(PromptAssembly(job.INSTRUCTIONS, prompt))
        self.turns: list[ModelTurn] = []

    def run(self) -> Self:
        """Go on until the model asks for nothing more."""
        while True:
            turn = next_turn(self.transcript)
            assert turn == next_turn(self.transcript)
            self.turns.append(turn)
            made = tuple(self.edited(request) for request in turn.tool_requests)
            outcomes = [self.call(request) for request in made]
            conversation.close_round(self.transcript, turn, made, outcomes)
            if not outcomes:
                return self

    def edited(self, request: ToolRequest) -> ToolRequest:
        """Return the call as a person lets it be made."""
        return dataclasses.replace(
            request, arguments={**request.arguments, **self.edits.get(str(request.arguments.get("invoice")), {})}
        )

    def call(self, request: ToolRequest) -> ToolOutcome:
        """Return what a call gives: a value, or an error as the model sees it."""
        try:
            return ToolOutcome(str(request.call_id), request.name, self.do(request))
        except (ValueError, ArithmeticError) as error:
            return ToolOutcome(str(request.call_id), request.name, error=str(error))

    def do(self, request: ToolRequest) -> Any:
        """Make a call."""
        given = dict(request.arguments)
        match request.name:
            case "read_invoices":
                return tools.read_invoices(**given)
            case "read_payments":
                return tools.read_payments(**given)
            case "match_payments":
                return tools.match(**given, ledger=self.ledger, run_id="r")
            case "write_off":
                if given["invoice"] in self.refuse:
                    raise ValueError("the customer will pay")
                amount = Decimal(given.pop("amount"))
                return tools.write_off(
                    **given, amount=amount, ledger=self.ledger, run_id="r", call_id=str(request.call_id)
                )
        declined = [(each["invoice"], Decimal(each["amount"]), each["reason"]) for each in given.pop("declined")]
        return tools.write_report(**given, declined=declined, ledger=self.ledger, run_id="r")

    @property
    def called(self) -> list[list[str]]:
        """The names of the tools of each turn."""
        return [[request.name for request in turn.tool_requests] for turn in self.turns]


def test_the_sample_is_reconciled_in_five_turns(tmp_path: Path) -> None:
    """Read both, match, write off what is small, report, sum up: each turn decided from the transcript alone."""
    walk = Walk(tmp_path, job.SAMPLE / "invoices.csv", job.SAMPLE / "payments.csv").run()
    assert walk.called == [
        ["read_invoices", "read_payments"],
        ["match_payments"],
        ["write_off"] * 4,
        ["write_report"],
        [],
    ]
    assert walk.turns[-1].text.endswith(f"The report is in {walk.report}.")
    assert [f"{entry.amount}" for entry in walk.ledger.entries()] == ["38.00", "64.50", "8.50", "132.00"]


def test_the_sample_has_each_kind_of_mismatch_and_write_offs_on_both_sides_of_the_limit(tmp_path: Path) -> None:
    """What is shipped shows everything that the job can find."""
    found = tools.match(
        str(job.SAMPLE / "invoices.csv"), str(job.SAMPLE / "payments.csv"), ledger=Ledger(tmp_path / "l"), run_id="r"
    )
    assert {
        "matched", "underpaid", "overpaid", "unpaid", "unknown payment", "duplicate payment", "outgoing payment",
    } == set(found["counts"])  # fmt: skip
    above = [tools.needs_approval(each, job.DEFAULT_LIMIT) for each in found["proposed_write_offs"]]
    assert sorted(above) == [False, True, True, True]


def test_a_refused_write_off_is_reported_with_its_reason(tmp_path: Path) -> None:
    """What a person declined stands in the report, and not in the ledger."""
    walk = Walk(tmp_path, job.SAMPLE / "invoices.csv", job.SAMPLE / "payments.csv", refuse={"INV-2026-0113"}).run()
    assert "| INV-2026-0113 | 132.00 | not written off | the customer will pay |" in walk.report.read_text()
    assert "INV-2026-0113" not in walk.ledger.path.read_text()
    assert "3 made, 1 not made" in walk.turns[-1].text


def test_a_write_off_that_a_person_spoiled_is_reported_as_it_was_proposed(tmp_path: Path) -> None:
    """Edited to no amount at all, the call fails; the report still says which write-off was not made."""
    walk = Walk(tmp_path, job.SAMPLE / "invoices.csv", job.SAMPLE / "payments.csv")
    walk.edits = {"INV-2026-0113": {"invoice": "nonsense", "amount": "lots"}}
    walk.run()
    assert re.search(r"\| INV-2026-0113 \| 132\.00 \| not written off \|", walk.report.read_text())
    assert "3 made, 1 not made" in walk.turns[-1].text


def test_without_small_differences_nothing_is_written_off(tmp_path: Path) -> None:
    """Another pair of files, all paid: no write-off round at all."""
    (tmp_path / "i.csv").write_text("id,total\nX-1,5.00\nX-2,6.00\n")
    (tmp_path / "p.csv").write_text("memo,amount\nX-1,5.00\nX-2,6.00\n")
    walk = Walk(tmp_path, tmp_path / "i.csv", tmp_path / "p.csv").run()
    assert walk.called == [["read_invoices", "read_payments"], ["match_payments"], ["write_report"], []]
    assert "## Matched (2)" in walk.report.read_text()


def test_a_file_that_cannot_be_read_ends_the_job_in_words(tmp_path: Path) -> None:
    """The model stops and says why; it asks for no further tool."""
    (tmp_path / "i.csv").write_text("nothing here\n")
    walk = Walk(tmp_path, tmp_path / "i.csv", job.SAMPLE / "payments.csv").run()
    assert walk.called[-1] == []
    assert "I stopped" in walk.turns[-1].text
    assert "no header row" in walk.turns[-1].text
    assert not walk.report.exists()


def test_a_prompt_without_files_is_answered_with_what_is_missing() -> None:
    """Whoever enqueues the plan with another prompt is told what it needs."""
    opened = conversation.open_turn(PromptAssembly("", "please reconcile\ninvoices: /a.csv\n"))
    assert next_turn(opened).text == (
        "I need to know where things are. Please add a line for each of: payments, report."
    )


def test_the_turn_streams_in_words_that_add_up_to_its_text() -> None:
    """The pieces of a streamed turn are its text."""
    opened = conversation.open_turn(PromptAssembly("", "please reconcile"))

    async def collected() -> tuple[list[str], ModelTurn]:
        made = RuleModel().stream(opened)
        pieces = [delta.text async for delta in made.deltas()]
        return pieces, made.result()

    pieces, turn = asyncio.run(collected())
    assert len(pieces) > 5
    assert "".join(pieces) == turn.text
    assert asyncio.run(RuleModel().invoke(opened)) == turn


@pytest.mark.parametrize(
    ("amount", "asked"),
    [("25.00", False), ("25.01", True), ("0.01", False), (30, True), ("lots", True), (None, True), ("NaN", True)],
)
def test_a_person_is_asked_above_the_limit_and_when_in_doubt(amount: object, asked: bool) -> None:
    """An amount that cannot be read is above every limit: the safe side."""
    assert tools.needs_approval({"invoice": "A-1", "amount": amount}, Decimal("25.00")) == asked
