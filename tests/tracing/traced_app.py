"""The planned fleet with its helper, in a process that set up OpenTelemetry's SDK: spans go to the file SPANS."""

import os

from fleet.family import app
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from support.spans import FileExporter

__all__ = ["app"]

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(FileExporter(os.environ["SPANS"])))
trace.set_tracer_provider(provider)
