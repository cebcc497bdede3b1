"""The Django page: a real site under a preloading gunicorn, two people, one decision."""

from pathlib import Path

import httpx
import pytest
from support.pages import Shop
from support.ports import free_port
from support.waiting import eventually

from turnfleet import Fleet

pytestmark = pytest.mark.slow


def test_the_page_from_a_form_to_a_refund(tmp_path: Path, own_redis_url: str) -> None:
    """Alice, of finance, asks twice and approves; bob may not, and a stranger sees nothing."""
    port = free_port()
    with Shop("docs/how-to/django.md", tmp_path, redis_url=own_redis_url, addresses={"8000": str(port)}) as shop:
        shop.write("myfleet.py", "desk/settings.py", "desk/urls.py", "desk/views.py", "people.py")
        shop.shell("set up")
        with shop.running("worker"), shop.running("server"):
            base = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=base, timeout=60) as alice, httpx.Client(base_url=base, timeout=60) as bob:
                eventually(lambda: _log_in(alice, "alice"), what="the site")
                assert _log_in(bob, "bob")
                assert httpx.get(f"{base}/runs/ticket-7", timeout=60).status_code == 302
                assert alice.get("/runs/ticket-7").status_code == 404
                for _ in range(2):
                    asked = _post(alice, "/tickets/7/refund", complaint="Order 1001 arrived broken.")
                    assert (asked.status_code, asked.json()) == (202, {"run": "ticket-7"})
                state = eventually(lambda: (said := alice.get("/runs/ticket-7").json())["waiting"] and said)
                assert state["state"] == "paused"
                waiting = state["waiting"][0]
                assert waiting["arguments"] == {"order_id": "1001", "amount": 80.0}
                where, what = f"/runs/ticket-7/decisions/{waiting['id']}", {"digest": waiting["digest"]}
                assert _post(bob, where, decision="approve", **what).status_code == 409
                assert alice.post(where, data={"decision": "approve", **what}).status_code == 403
                assert _post(alice, where, decision="approve", **what).json() == {"state": "queued"}
                assert _post(alice, where, decision="reject", **what).status_code == 409
            with Fleet(own_redis_url) as fleet:
                assert fleet.run("ticket-7").result(timeout=60).text == "Refunded."


def _log_in(web: httpx.Client, name: str) -> bool:
    try:
        web.get("/admin/login/").raise_for_status()
    except httpx.TransportError:
        return False
    return _post(web, "/admin/login/?next=/admin/", username=name, password="wonderland").status_code == 302  # noqa: S106 - the page's own


def _post(web: httpx.Client, where: str, **fields: str) -> httpx.Response:
    token = {"csrfmiddlewaretoken": web.cookies["csrftoken"]}
    return web.post(where, data={**fields, **token})
