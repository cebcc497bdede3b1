"""A model without a model: it reads the transcript, and rules say what to do next.

It is deterministic (the same transcript gives the same turn, call ids included), needs no key, and knows the job only
by the results of its tools, so it works on any pair of files.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnfleet_kernel.contracts.values import Delta, ModelTurn, ToolRequest, UsageDelta
from turnfleet_worker.demo.job import FIELDS, parse_prompt

Message = Mapping[str, Any]


class RuleModel:
    """The model port of the demo; it has no state, so that any worker can go on with a run."""

    async def invoke(self, transcript: Sequence[Message]) -> ModelTurn:
        """Return the next turn."""
        return next_turn(transcript)

    def stream(self, transcript: Sequence[Message]) -> "RuleRound":
        """Return the next turn, word by word."""
        return RuleRound(next_turn(transcript))


@dataclass(slots=True)
class RuleRound:
    """One streamed turn."""

    turn: ModelTurn

    async def deltas(self) -> AsyncIterator[Delta]:
        """Yield the text in words, letting others run in between."""
        for word in re.findall(r"\S+\s*", self.turn.text):
            await asyncio.sleep(0)
            yield Delta("text", word)

    def result(self) -> ModelTurn:
        """Return the whole turn."""
        return self.turn


def next_turn(transcript: Sequence[Message]) -> ModelTurn:
    """Return what to say and what to call after this transcript."""
    words = sum(len(str(message.get("content", "")).split()) for message in transcript)
    text, calls = _decide(transcript)
    return ModelTurn(
        text=text,
        usage=UsageDelta(input_tokens=words, output_tokens=len(text.split()), requests=1),
        stop_reason="tool_use" if calls else "stop",
        tool_requests=calls,
    )


@dataclass(frozen=True, slots=True)
class _Result:
    """What a call gave: its value or its error."""

    call_id: str
    value: Any
    error: str | None


def _decide(transcript: Sequence[Message]) -> tuple[str, tuple[ToolRequest, ...]]:
    asked = next((message for message in reversed(transcript) if message["role"] == "user"), None)
    files = parse_prompt(str(asked["content"])) if asked is not None else {}
    missing = [field for field in FIELDS if field not in files]
    if missing:
        return f"I need to know where things are. Please add a line for each of: {', '.join(missing)}.", ()
    results = _results(transcript)
    # A refused write-off is an answer; anything else that fails is the end of the job.
    failed = [
        made.error for name, all_made in results.items() if name != "write_off" for made in all_made if made.error
    ]
    if failed:
        return "I stopped, because this does not work: " + "; ".join(failed), ()
    if "match_payments" not in results:
        return _begin(files, results)
    return _conclude(files, results)


def _begin(files: Mapping[str, str], results: Mapping[str, Sequence[_Result]]) -> tuple[str, tuple[ToolRequest, ...]]:
    if "read_invoices" not in results:
        return "I read both files first.", (
            ToolRequest("read-invoices", "read_invoices", {"path": files["invoices"]}),
            ToolRequest("read-payments", "read_payments", {"path": files["payments"]}),
        )
    pair = {"invoices": files["invoices"], "payments": files["payments"]}
    return _what_was_read(results), (ToolRequest("match", "match_payments", pair),)


def _conclude(
    files: Mapping[str, str], results: Mapping[str, Sequence[_Result]]
) -> tuple[str, tuple[ToolRequest, ...]]:
    matched = results["match_payments"][0].value
    if "write_report" in results:
        return _summary(matched, results), ()
    if "write_off" not in results and matched["proposed_write_offs"]:
        return _what_was_found(matched), tuple(
            ToolRequest(_write_off_call(item), "write_off", dict(item)) for item in matched["proposed_write_offs"]
        )
    say = "Now I write the report." if "write_off" in results else _what_was_found(matched)
    arguments = {
        "invoices": files["invoices"],
        "payments": files["payments"],
        "path": files["report"],
        "declined": _declined(matched["proposed_write_offs"], results),
    }
    return say, (ToolRequest("report", "write_report", arguments),)


def _results(transcript: Sequence[Message]) -> dict[str, list[_Result]]:
    """Return the outcomes of all calls, by tool, in the order they were recorded."""
    results: dict[str, list[_Result]] = {}
    for message in transcript:
        if message["role"] == "tool":
            error = message.get("error")
            value = None if error else message["content"]
            results.setdefault(message["name"], []).append(_Result(message["call_id"], value, error))
    return results


def _what_was_read(results: Mapping[str, Sequence[_Result]]) -> str:
    parts = []
    for name, what in (("read_invoices", "invoices"), ("read_payments", "payments")):
        found = results[name][0].value
        problems = len(found["problems"]) + found["more_problems"]
        odd = f" ({problems} {'line' if problems == 1 else 'lines'} to look at)" if problems else ""
        parts.append(f"{found['rows']} {what} over {found['sum']} {found['currency']}".strip() + odd)
    return f"I read {' and '.join(parts)}. I match them now."


def _what_was_found(matched: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{number} {what}" for what, number in matched["counts"].items()) or "nothing"
    proposals = matched["proposed_write_offs"]
    text = f"I found: {counts}."
    if proposals:
        what = "difference is" if len(proposals) == 1 else "differences are"
        text += f" {len(proposals)} small {what} worth writing off."
    if matched["more_proposals"]:
        text += f" {matched['more_proposals']} more are left for another run."
    return text


def _declined(proposals: Sequence[Mapping[str, Any]], results: Mapping[str, Sequence[_Result]]) -> list[dict[str, Any]]:
    """Say what was not written off, as it was proposed: what a person put in its place may be no amount at all."""
    proposed = {_write_off_call(item): item for item in proposals}
    return [
        {"invoice": item["invoice"], "amount": item["amount"], "reason": result.error}
        for result in results.get("write_off", ())
        if result.error and (item := proposed.get(result.call_id))
    ]


def _summary(matched: Mapping[str, Any], results: Mapping[str, Sequence[_Result]]) -> str:
    done, sums, currency = results["write_report"][0].value, matched["totals"], matched["currency"]
    text = (
        f"Done. Of {sums['invoiced']} {currency} invoiced, {sums['settled']} is settled by payments and "
        f"{sums['still open']} was open; {done['written_off_sum']} of that is written off "
        f"({done['written_off']} made, {done['not_written_off']} not made)."
    )
    if done["lines_to_look_at"]:
        text += f" Lines in the files that need a look: {done['lines_to_look_at']}."
    return " ".join(text.split()) + f" The report is in {done['report']}."


def _write_off_call(proposal: Mapping[str, Any]) -> str:
    return f"write-off-{_slug(proposal['invoice'])}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "x"
