"""A provider on this machine that speaks OpenAI's chat API, or Anthropic's, and says what it was told to say."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

CUT = object()
"""In the place of a piece: the connection is lost."""
END = object()
"""In the place of a piece: the answer ends, as if it were whole."""


@dataclass
class Provider:
    """`answers` are given one a request, the last one again and again: a status, or the pieces of a stream."""

    url: str
    answers: list[int | Sequence[object]]
    requests: list[dict[str, Any]] = field(default_factory=list)

    def answer(self) -> int | Sequence[object]:
        """Give the next answer."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def provider(*answers: int | Sequence[object]) -> Iterator[Provider]:
    """Serve as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            here.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = here.answer()
            self.close_connection = True
            if isinstance(answer, int):
                self._refuse(answer)
            else:
                self._stream(answer)

        def _refuse(self, status: int) -> None:
            body = json.dumps({"error": {"message": "it was about your order 1001", "type": "x"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, pieces: Sequence[object]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in pieces:
                if piece is CUT:
                    return
                if piece is END:
                    break
                self._write(f"event: {piece['type']}\n" if isinstance(piece, dict) and "type" in piece else "", piece)
            else:
                self._write("", "[DONE]")
            self.wfile.write(b"0\r\n\r\n")

        def _write(self, head: str, piece: object) -> None:
            data = f"{head}data: {piece if isinstance(piece, str) else json.dumps(piece)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        here = Provider(f"http://127.0.0.1:{server.server_port}", list(answers))
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield here
        finally:
            server.shutdown()
            serving.join()


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
    """Give one piece of an answer of OpenAI's chat API."""
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}


def spent(asked: int, said: int) -> dict[str, Any]:
    """Give the piece that says how many tokens it took."""
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return {**chunk({}), "choices": [], "usage": usage}
