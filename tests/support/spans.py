"""Spans as a test reads them: finished ones as JSON, put together as the tree that a person would look at."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from support.lines import lines_so_far


@dataclass(frozen=True)
class Seen:
    """One finished span. `links` are span ids."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str | None
    links: tuple[str, ...]
    attributes: dict[str, Any]
    failed: bool
    start: str
    text: str

    @classmethod
    def read(cls, line: str) -> Self:
        """Read what the SDK's `to_json` wrote."""
        value = json.loads(line)
        return cls(
            name=value["name"],
            kind=value["kind"].removeprefix("SpanKind."),
            trace_id=value["context"]["trace_id"],
            span_id=value["context"]["span_id"],
            parent_id=value["parent_id"],
            links=tuple(link["context"]["span_id"] for link in value["links"]),
            attributes=value["attributes"],
            failed=value["status"]["status_code"] == "ERROR",
            start=value["start_time"],
            text=line,
        )


class LinesExporter(SpanExporter):
    """Hands each finished span to a function, as one line of JSON."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write them."""
        for span in spans:
            self._write(span.to_json(indent=None))
        return SpanExportResult.SUCCESS


class FileExporter(LinesExporter):
    """Appends each finished span to a file at once, so that a kill loses none; several processes may share it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(self._append)
        self._path = Path(path)

    def _append(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")


def read_spans(path: Path) -> list[Seen]:
    """Give the spans in a file that workers may be writing."""
    return [Seen.read(line) for line in lines_so_far(path)]


def tree(spans: Iterable[Seen], *shown: str) -> str:
    """Draw spans: children below their parents, in the order of their starts; the attributes `shown`, links, errors.

    A span whose parent is not among them is a root. A link is drawn as `-> ` and the name of what it leads to.
    """
    every = sorted(spans, key=lambda span: span.start)
    by_id = {span.span_id: span for span in every}
    lines: list[str] = []

    def draw(span: Seen, depth: int) -> None:
        parts = [span.name]
        parts += [f"{key.rpartition('.')[2]}={span.attributes[key]}" for key in shown if key in span.attributes]
        parts += [f"-> {by_id[link].name if link in by_id else '?'}" for link in span.links]
        if span.failed:
            parts.append(f"FAILED {span.attributes.get('error.type')}")
        lines.append("  " * depth + " ".join(parts))
        for child in every:
            if child.parent_id == span.span_id:
                draw(child, depth + 1)

    for span in every:
        if span.parent_id not in by_id:
            draw(span, 0)
    return "\n".join(lines)
