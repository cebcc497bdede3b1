"""What people and models said, in the JSON of the GenAI conventions. Used only where content is shown."""

import json
from collections.abc import Mapping
from typing import Any, Final

from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.values import ModelTurn
from turnfleet_kernel.ports import Transcript

__all__ = ["content_text", "input_attributes", "output_attributes"]

INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
INSTRUCTIONS: Final = "gen_ai.system_instructions"


def content_text(value: Any) -> str:
    """Return a value as JSON text."""
    return json.dumps(thaw(value), ensure_ascii=False, default=str)


def input_attributes(transcript: Transcript) -> dict[str, str]:
    """Return what a model is sent; nothing for a transcript that is no list of role-and-content messages."""
    if not isinstance(transcript, list) or not all(isinstance(each, Mapping) for each in transcript):
        return {}
    said = [_message(each) for each in transcript if each.get("role") != "system"]
    orders = [_text_part(each.get("content")) for each in transcript if each.get("role") == "system"]
    return {INPUT: content_text(said)} | ({INSTRUCTIONS: content_text(orders)} if orders else {})


def output_attributes(turn: ModelTurn) -> dict[str, str]:
    """Return what a model gave."""
    parts = [_text_part(turn.text)] if turn.text else []
    parts += [_call_part(each.call_id, each.name, each.arguments) for each in turn.tool_requests]
    message = {"role": "assistant", "parts": parts, "finish_reason": turn.stop_reason}
    return {OUTPUT: content_text([message])}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = message.get("role")
    if role == "tool":
        answer = {"type": "tool_call_response", "id": message.get("call_id"), "response": message.get("content")}
        return {"role": role, "parts": [answer]}
    parts = [_text_part(message["content"])] if message.get("content") else []
    parts += [
        _call_part(each.get("id"), each.get("name"), each.get("arguments")) for each in message.get("tool_calls", ())
    ]
    parts += [{"type": "attachment", "content": each} for each in message.get("attachments", ())]
    return {"role": role, "parts": parts}


def _text_part(text: Any) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _call_part(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
