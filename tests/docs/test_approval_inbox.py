"""The inbox page: each sees what is theirs, one decision counts, and another site cannot decide."""

import re
from html import unescape
from pathlib import Path

import httpx
import pytest
from support.pages import Shop
from support.ports import free_port
from support.waiting import eventually

from turnfleet import Fleet

pytestmark = pytest.mark.slow

ALICE, BOB = ("alice", "wonderland"), ("bob", "builder")


def test_the_page_from_the_fleet_to_two_decisions(tmp_path: Path, own_redis_url: str) -> None:
    """Finance approves once, whoever clicks again; bob may answer the question and not the refund."""
    port = free_port()
    with Shop(
        "docs/how-to/approval-inbox.md", tmp_path, redis_url=own_redis_url, addresses={"8000": str(port)}
    ) as shop:
        shop.write("myfleet.py", "inbox.py")
        with (
            shop.running("worker"),
            shop.running("server"),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as web,
        ):
            shop.python("enqueue.py")
            eventually(lambda: _cards(web, ALICE) == 2, what="two cards")
            refund, question = _form(web, ALICE, "ticket-1"), _form(web, BOB, "ticket-2")
            assert _cards(web, BOB) == 1
            assert web.get("/", auth=("alice", "wrong")).status_code == 401
            yes = {**refund, "decision": "approve"}
            assert web.post("/decide", auth=BOB, data=yes).status_code == 403
            foreign = {"Sec-Fetch-Site": "cross-site"}
            assert web.post("/decide", auth=ALICE, data=yes, headers=foreign).status_code == 403
            assert web.post("/decide", auth=ALICE, data={**yes, "digest": "other"}).status_code == 409
            assert web.post("/decide", auth=ALICE, data=yes).status_code == 303
            assert web.post("/decide", auth=ALICE, data=yes).status_code == 303
            assert web.post("/decide", auth=ALICE, data={**refund, "decision": "reject"}).status_code == 409
            answer = {**question, "decision": "answer", "text": "12 Main Street"}
            assert web.post("/decide", auth=BOB, data=answer).status_code == 303
            with Fleet(own_redis_url) as fleet:
                assert fleet.run("ticket-1").result(timeout=60).text == "Refunded."
                assert fleet.run("ticket-2").result(timeout=60).tool_outcomes[0].value == "12 Main Street"


def _cards(web: httpx.Client, who: tuple[str, str]) -> int:
    try:
        return web.get("/", auth=who).text.count("<article>")
    except httpx.TransportError:
        return 0  # the server is still starting


def _form(web: httpx.Client, who: tuple[str, str], run_id: str) -> dict[str, str]:
    """Read the hidden fields of a run's card."""
    page = web.get("/", auth=who).text
    card = next(part for part in page.split("<article>") if f'value="{run_id}"' in part)
    fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', card)
    return {name: unescape(value) for name, value in fields}
