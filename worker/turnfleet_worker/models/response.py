"""The answer as JSON: what a plan with a response schema gives as its output."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_worker.errors import ResponseError

__all__ = ["JsonResponse"]

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(?P<body>.*)\n\s*```\s*\Z", re.DOTALL | re.IGNORECASE)


class JsonResponse:
    """A `ResponsePort`: the last message's text, read as JSON and checked against the plan's schema.

    The model is asked for native JSON text, not for a call of an output tool: every provider can write it, and it
    streams. A Markdown fence around it is forgiven; prose around it is not.
    """

    structured = True

    def __init__(self, plan: str, schema: Mapping[str, Any]) -> None:
        """Read answers of the plan of this name. Raises `ResponseError` for a schema that is no JSON Schema."""
        # Loaded here: plans without a schema never need it.
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415
        from jsonschema.validators import validator_for  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415

        self._plan = plan
        plain: dict[str, Any] = thaw(schema)
        kind = validator_for(plain, default=Draft202012Validator)
        try:
            kind.check_schema(plain)
        except SchemaError as invalid:
            where = "/".join(str(part) for part in invalid.path) or "its top"
            raise ResponseError(f"the response schema of plan {plan!r} is no JSON Schema at {where}") from invalid
        # An empty registry: a $ref to elsewhere is an error, not a download.
        self._validator = kind(plain, registry=Registry())

    async def extract(self, transcript: Sequence[Mapping[str, Any]]) -> object:
        """Give the answer as JSON value (STG-5). Raises `ResponseError`; its text never quotes the answer."""
        text = transcript[-1]["content"] if transcript and transcript[-1]["role"] == "assistant" else ""
        fenced = _FENCED.match(text)
        try:
            answer: Any = json.loads(fenced["body"] if fenced else text, parse_constant=_no_constant)
        except ValueError as broken:
            raise ResponseError(
                f"the answer is not the JSON that plan {self._plan!r} asks for; tell the model in the plan's "
                "instructions to answer with JSON alone, or use a model that supports response schemas"
            ) from broken
        if where := self._misfit(answer):
            raise ResponseError(f"the answer does not fit the response schema of plan {self._plan!r} at {where}")
        return answer

    def _misfit(self, answer: Any) -> str | None:
        """Say where an answer does not fit; None where it does."""
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - as in __init__

        try:
            problem = next(iter(self._validator.iter_errors(answer)), None)
        except (Unresolvable, RecursionError) as lost:
            raise ResponseError(
                f"the response schema of plan {self._plan!r} refers to what is not in it, or to itself without end"
            ) from lost
        return problem.json_path if problem else None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
