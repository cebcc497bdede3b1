"""Names of the GenAI conventions (opentelemetry-semantic-conventions 0.66b2). Those of messages: turnfleet.wire.spans.

Copied, because that package is not stable, and only the API is a dependency.
"""

from typing import Final

from turnfleet_kernel.contracts.values import UsageDelta
from turnfleet_kernel.identity import current_run_identity

PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
STREAM: Final = "gen_ai.request.stream"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
REGISTERED: Final = "turnfleet.model"
OPERATION: Final = "gen_ai.operation.name"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
CALL_ID: Final = "gen_ai.tool.call.id"
CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
CALL_RESULT: Final = "gen_ai.tool.call.result"


def usage_attributes(usage: UsageDelta | None) -> dict[str, int]:
    """Give the attributes of what was used; figures beyond input and output only where there are any."""
    if usage is None:
        return {}
    rare = {
        CACHE_READ_TOKENS: usage.cache_read_tokens,
        CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        REASONING_TOKENS: usage.reasoning_tokens,
    }
    used = {INPUT_TOKENS: usage.input_tokens, OUTPUT_TOKENS: usage.output_tokens}
    return used | {name: figure for name, figure in rare.items() if figure}


def run_here() -> str | None:
    """Tell which run this code is part of; None outside of any."""
    identity = current_run_identity()
    return None if identity is None else identity.run_id
