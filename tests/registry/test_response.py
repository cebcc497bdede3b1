"""A plan's response schema: the answer is JSON text, read and checked before anything is committed (STG-5)."""

from pathlib import Path
from typing import Any

import pytest

from turnfleet_worker.errors import ResponseError
from turnfleet_worker.models.response import JsonResponse

INVOICE = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}


def said(text: str) -> list[dict[str, Any]]:
    """Make a transcript that ends with this answer."""
    return [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}]


@pytest.mark.parametrize(
    "text", ['{"total": 5}', ' {"total": 5}\n', '```json\n{"total": 5}\n```', '```\n{"total": 5}\n```\n']
)
async def test_the_answer_is_read_as_json(text: str) -> None:
    """Plain or in a Markdown fence."""
    assert await JsonResponse("billing", INVOICE).extract(said(text)) == {"total": 5}


@pytest.mark.parametrize("text", ["", "The total is 5.", '{"total": NaN}', 'Here: {"total": 5}'])
async def test_what_is_not_json_is_an_error_that_says_what_to_do(text: str) -> None:
    """The plan is named, the answer is not quoted."""
    with pytest.raises(ResponseError, match="not the JSON that plan 'billing' asks for; tell the model") as refused:
        await JsonResponse("billing", INVOICE).extract(said(text))
    assert "total is 5" not in str(refused.value)


async def test_json_that_does_not_fit_says_where() -> None:
    """By its path, without the value."""
    with pytest.raises(ResponseError) as refused:
        await JsonResponse("billing", INVOICE).extract(said('{"total": "secret"}'))
    assert str(refused.value) == "the answer does not fit the response schema of plan 'billing' at $.total"


async def test_a_transcript_without_an_answer_is_an_error() -> None:
    """Text that a person wrote is no answer."""
    with pytest.raises(ResponseError):
        await JsonResponse("billing", INVOICE).extract([{"role": "user", "content": '{"total": 5}'}])


def test_a_schema_that_is_none_is_refused_when_bound() -> None:
    """A plan that no answer could satisfy does not start."""
    with pytest.raises(ResponseError, match="the response schema of plan 'billing' is no JSON Schema at type"):
        JsonResponse("billing", {"type": "nonsense"})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jsonschema's, where it would fetch
async def test_a_reference_to_elsewhere_fetches_nothing(tmp_path: Path) -> None:
    """A schema cannot make a worker open what it names."""
    elsewhere = tmp_path / "schema.json"
    elsewhere.write_text("{}")
    response = JsonResponse("billing", {"properties": {"a": {"$ref": elsewhere.as_uri()}}})
    with pytest.raises(ResponseError, match="refers to what is not in it"):
        await response.extract(said('{"a": 1}'))
