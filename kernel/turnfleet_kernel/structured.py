"""From a finished transcript to the run's output (STG-5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.schema import schema_problem
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.ports import ResponsePort, Transcript

__all__ = ["JsonResponse", "StructuredOutputAdapter"]


class StructuredOutputAdapter:
    """Extracts the output, once (STG-5). Attached per invocation."""

    __slots__ = ("_response",)

    def __init__(self, response: ResponsePort | None) -> None:
        """Extract with this port, if there is one."""
        self._response = response

    @classmethod
    def attach(cls, plan: InvocationPlan) -> StructuredOutputAdapter:
        """Attach to an invocation of the plan."""
        return cls(plan.bindings.response)

    async def output(self, ctx: RequestContext, transcript: Transcript, *, cut_short: bool) -> Any:
        """Give the run's output: what the port extracts, else the text.

        A run that a limit cut short has no answer to extract: its structured output is None (STG-6).
        """
        response = self._response
        if response is None or not response.structured:
            return ctx.text
        if cut_short:
            return None
        return await ctx.lifecycle.bounded(response.extract(transcript), doing="extracting the output")


class JsonResponse:
    """A response port for transcripts of the default kind: the last assistant message is JSON that fits a schema.

    Raises:
        ValueError: from extract(), if it is not; the text says what is wrong, not what was said.
    """

    structured = True

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Expect answers of this JSON Schema."""
        self._schema = schema

    async def extract(self, transcript: Transcript) -> object:
        """Read the last assistant message, with or without a Markdown fence around the JSON."""
        said = next((each["content"] for each in reversed(transcript) if each["role"] == "assistant"), "")
        try:
            value = json.loads(_without_fence(said))
        except ValueError as problem:
            raise ValueError(f"the answer is not JSON: {type(problem).__name__}") from None
        wrong = schema_problem(self._schema, value)
        if wrong is not None:
            raise ValueError(f"the answer does not fit the response schema: {wrong}")
        return value


def _without_fence(said: str) -> str:
    text = said.strip()
    if text.startswith("```") and text.endswith("```"):
        return text.removesuffix("```").partition("\n")[2]
    return text
