"""The same work in other agent libraries: three tool rounds, then text, with an instant model and an instant tool.

Nothing else of the project imports them. Each function gives a coroutine function that does one run; each run checks
what came of it.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any

ROUNDS = 3
ANSWER = "the answer is three"

Run = Callable[[], Awaitable[None]]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def pydantic_ai() -> Run:
    """Run a pydantic-ai agent on its FunctionModel."""
    ai: Any = import_module("pydantic_ai")
    messages: Any = import_module("pydantic_ai.messages")
    function: Any = import_module("pydantic_ai.models.function")

    def respond(history: list[Any], _: Any) -> Any:
        number = len(history) // 2
        if number < ROUNDS:
            return messages.ModelResponse(parts=[messages.ToolCallPart("add", {"a": number, "b": 1})])
        return messages.ModelResponse(parts=[messages.TextPart(ANSWER)])

    agent = ai.Agent(function.FunctionModel(respond), tools=[add])

    async def run() -> None:
        result = await agent.run("hi")
        assert result.output == ANSWER
        assert len(result.all_messages()) == 2 * ROUNDS + 2

    return run


def openai_agents() -> Run:
    """Run an openai-agents agent on a fake model, tracing off."""
    agents: Any = import_module("agents")
    interface: Any = import_module("agents.models.interface")
    responses: Any = import_module("openai.types.responses")
    agents.set_tracing_disabled(True)

    class Fake(interface.Model):  # type: ignore[misc]  # the library is not there when this is checked
        async def get_response(self, *_: Any, **named: Any) -> Any:
            number = (len(named["input"]) - 1) // 2
            if number < ROUNDS:
                output = responses.ResponseFunctionToolCall(
                    call_id=f"c{number}", name="add", arguments=f'{{"a": {number}, "b": 1}}', type="function_call"
                )
            else:
                text = responses.ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
                output = responses.ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            return agents.ModelResponse(output=[output], usage=agents.Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("nobody streams here")

    agent = agents.Agent(name="test", model=Fake(), tools=[agents.function_tool(add)])

    async def run() -> None:
        result = await agents.Runner.run(agent, "hi")
        assert result.final_output == ANSWER
        assert len(result.new_items) == 2 * ROUNDS + 1

    return run


def langchain() -> Run:
    """Run langchain's agent, which is a langgraph graph, on a fake chat model."""
    agents: Any = import_module("langchain.agents")
    chat: Any = import_module("langchain_core.language_models.chat_models")
    messages: Any = import_module("langchain_core.messages")
    outputs: Any = import_module("langchain_core.outputs")

    class Fake(chat.BaseChatModel):  # type: ignore[misc]  # the library is not there when this is checked
        @property
        def _llm_type(self) -> str:
            return "fake"

        def bind_tools(self, _tools: Sequence[Any], **_: Any) -> Any:
            return self

        def _generate(self, history: list[Any], *_: Any, **__: Any) -> Any:
            number = len(history) // 2
            if number < ROUNDS:
                wanted = {"name": "add", "args": {"a": number, "b": 1}, "id": f"c{number}"}
                message = messages.AIMessage(content="", tool_calls=[wanted])
            else:
                message = messages.AIMessage(content=ANSWER)
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=message)])

        async def _agenerate(self, history: list[Any], *_: Any, **__: Any) -> Any:
            return self._generate(history)

    agent = agents.create_agent(Fake(), tools=[add])

    async def run() -> None:
        result = await agent.ainvoke({"messages": [("user", "hi")]})
        assert result["messages"][-1].content == ANSWER
        assert len(result["messages"]) == 2 * ROUNDS + 2

    return run


PEERS: dict[str, tuple[Callable[[], Run], tuple[str, ...]]] = {
    "pydantic-ai (FunctionModel)": (pydantic_ai, ("pydantic-ai-slim", "pydantic")),
    "openai-agents (fake model)": (openai_agents, ("openai-agents", "openai")),
    "langchain agent on langgraph (fake chat model)": (langchain, ("langchain", "langgraph", "langchain-core")),
}
"""By name: what makes a run, and the distributions whose versions count."""
