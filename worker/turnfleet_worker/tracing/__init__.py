"""The worker's part of tracing. See docs/design/tracing.md, and turnfleet.wire.spans for how a span is made."""
