"""Log lines that say which run they are of, as text or JSON (docs/design/tracing.md).

What is bound with `bound_contextvars` while a run is worked on is added to every line made there, whichever logger
makes it. The formatters go onto handlers that Celery makes for a fleet's app, and onto no others.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args

from celery.app.log import Logging
from celery.utils.log import ColorFormatter
from opentelemetry import trace
from structlog.contextvars import get_contextvars
from structlog.stdlib import ExtraAdder, ProcessorFormatter
from typing_extensions import override

from turnfleet.store.records import Claim
from turnfleet_kernel.identity import current_run_identity
from turnfleet_worker.errors import SettingError
from turnfleet_worker.pool.tracebacks import traceback_text

__all__ = ["FORMAT_VARIABLE", "FleetLogging", "LogFormat", "RunFields", "json_formatter", "labels_of"]

LogFormat = Literal["text", "json"]

FORMAT_VARIABLE: Final = "TURNFLEET_LOG_FORMAT"

_NAMES: Final = ("run", "plan", "tenant", "worker", "attempt", "child")
_PLAIN: Final = re.compile(r"[\w.:@/+-]+")


def labels_of(claim: Claim, worker: str) -> dict[str, Any]:
    """Return what the lines of a claimed run say; `tenant` only where it has one."""
    labels = {
        "run": claim.run_id,
        "plan": claim.plan.get("name"),
        "tenant": claim.tenant,
        "worker": worker,
        "attempt": claim.attempt,
    }
    return {name: value for name, value in labels.items() if value is not None}


class RunFields(logging.Filter):
    """Puts `run`, `plan`, `tenant`, `worker`, `attempt` and `child` on records made while a run is worked on.

    For handlers that a program sets up itself; `%(run)s` in its format then needs `defaults={"run": ""}` for the
    lines that are of no run.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; every record passes."""
        record.__dict__.update(_fields())
        return True


class FleetLogging(Logging):
    """Celery's logging set-up of a fleet's app, with its formatters replaced (`app.log`)."""

    app: Any

    @override
    def setup_handlers(
        self,
        logger: logging.Logger,
        logfile: Any,
        format: str,
        colorize: Any,
        formatter: type[ColorFormatter] = ColorFormatter,
        **kwargs: Any,
    ) -> logging.Logger:
        """Make a handler as Celery does. SystemExit with the reason for a format that there is not."""
        settings = self.app.worker_settings
        try:
            chosen = log_format(settings.log_format, os.environ)
        except SettingError as error:
            raise SystemExit(f"The worker does not start: {error}") from None
        made: Any = _text(formatter, content=settings.show_content)
        if chosen == "json":

            def made(*_: object, **__: object) -> logging.Formatter:
                return json_formatter(content=settings.show_content)

        result: logging.Logger = super().setup_handlers(logger, logfile, format, colorize, formatter=made, **kwargs)
        return result


def log_format(setting: LogFormat, environment: Mapping[str, str]) -> LogFormat:
    """Return the format of a process's log: its environment's word, else the setting. Raises `SettingError`."""
    asked = environment.get(FORMAT_VARIABLE, setting)
    if asked not in get_args(LogFormat):
        raise SettingError(f"{FORMAT_VARIABLE}={asked!r} is no log format: set {' or '.join(get_args(LogFormat))}")
    return cast("LogFormat", asked)


def json_formatter(*, content: bool = False) -> logging.Formatter:
    """Return a formatter that makes one JSON object a line: time, level, logger, message, fields, extras, exception.

    `content`: with what providers said about a model call that failed, which may quote the prompt.
    """

    def render(_logger: Any, _method: str, event: Any) -> str:
        return _line(event, content=content)

    return ProcessorFormatter(foreign_pre_chain=[ExtraAdder()], processors=[render])


def _line(event: dict[str, Any], *, content: bool) -> str:
    record: logging.LogRecord = event.pop("_record")
    event.pop("_from_structlog")
    event.pop("data", None)  # Celery's own: what the message says, once more
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": event.pop("event"),
    }
    raised = event.pop("exc_info", None)
    if isinstance(raised, tuple) and raised[1] is not None:
        line["exception"] = traceback_text(raised[1], content=content)
    # What a program bound or added itself takes no name that is taken.
    for name, value in {**_bound(), **_span(), **event}.items():
        line.setdefault(name, value)
    return json.dumps(line, default=str)


def _bound() -> dict[str, Any]:
    """Return what is bound here and now, the worker's own fields first.

    `child` is the delegated run whose code this is.
    """
    bound = get_contextvars()
    identity = current_run_identity()
    if identity is not None and identity.parent_run_id is not None:
        bound = {**bound, "child": identity.run_id}
    # Contexts have no order, and a line is read by people, too.
    return {name: bound[name] for name in (*_NAMES, *sorted(bound.keys() - set(_NAMES))) if name in bound}


def _fields() -> dict[str, Any]:
    """Return what of that is the worker's own."""
    return {name: value for name, value in _bound().items() if name in _NAMES}


def _span() -> dict[str, str]:
    span = trace.get_current_span()
    if not span.is_recording():
        return {}
    context = span.get_span_context()
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}


def _text(formatter: type[ColorFormatter], *, content: bool) -> type[ColorFormatter]:
    """Return Celery's formatter with the fields after the message."""

    class TextFormatter(formatter):  # type: ignore[valid-type, misc]
        def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
            fields = _fields()
            # Not `worker`: the whole log is one's, and its first lines say whose.
            shown = " ".join(f"{name}={_value(value)}" for name, value in fields.items() if name != "worker")
            message = super().formatMessage(record)
            return f"{message} [{shown}]" if shown else str(message)

        def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
            error = ei[1] if isinstance(ei, tuple) else None
            if error is None:
                return str(super().formatException(ei))
            return traceback_text(error, content=content)

    return TextFormatter


def _value(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
