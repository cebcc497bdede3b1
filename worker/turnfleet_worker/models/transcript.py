"""A transcript of role-and-content messages, as pydantic-ai's messages."""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from turnfleet_worker.errors import ModelRefusedError

__all__ = ["model_messages"]

_URLS: Mapping[str, type[ImageUrl | AudioUrl | VideoUrl]] = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}


def model_messages(transcript: Iterable[Mapping[str, Any]]) -> list[ModelMessage]:
    """Translate messages as `ListConversation` keeps them; consecutive messages to the model become one request.

    Raises `ModelRefusedError` for a role or an attachment that no model could be sent.
    """
    messages: list[ModelMessage] = []
    asked: list[ModelRequestPart] = []
    for message in transcript:
        if message["role"] == "assistant":
            if asked:
                messages.append(ModelRequest(parts=asked))
                asked = []
            messages.append(ModelResponse(parts=_said(message)))
        else:
            asked.append(_heard(message))
    if asked:
        messages.append(ModelRequest(parts=asked))
    return messages


def _said(message: Mapping[str, Any]) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = [TextPart(_text(message["content"]))] if message["content"] else []
    parts.extend(
        ToolCallPart(call["name"], dict(call["arguments"]), call["id"]) for call in message.get("tool_calls", ())
    )
    return parts


def _heard(message: Mapping[str, Any]) -> ModelRequestPart:
    match message["role"]:
        case "system":
            return SystemPromptPart(_text(message["content"]))
        case "user":
            attached = [_attachment(each) for each in message.get("attachments", ())]
            prompt = _text(message["content"])
            return UserPromptPart([prompt, *attached] if attached else prompt)
        case "tool":
            failed = message.get("error") is not None
            return ToolReturnPart(
                message["name"], message["content"], message["call_id"], outcome="failed" if failed else "success"
            )
        case unknown:
            raise ModelRefusedError(f"the transcript holds a message with role {unknown!r}, which no model can be sent")


def _attachment(attached: Any) -> UserContent:
    """Read `{"url", "media_type"}`, `{"data" (base64), "media_type"}`, or text."""
    if isinstance(attached, str):
        return attached
    if isinstance(attached, Mapping) and isinstance(kind := attached.get("media_type"), str):
        if isinstance(url := attached.get("url"), str):
            return _URLS.get(kind.split("/")[0], DocumentUrl)(url=url, media_type=kind)
        if isinstance(data := attached.get("data"), str):
            try:
                return BinaryContent(base64.b64decode(data, validate=True), media_type=kind)
            except binascii.Error as broken:
                raise ModelRefusedError(f"an attachment of type {kind} holds data that is not base64") from broken
    raise ModelRefusedError(
        'an attachment is neither text, nor {"url", "media_type"}, nor {"data", "media_type"} with base64 data'
    )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)
