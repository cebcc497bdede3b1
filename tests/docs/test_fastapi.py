"""The FastAPI page, with a real uvicorn; and its endpoint when 200 clients go away at once."""

import asyncio
import json
from pathlib import Path
from urllib.request import Request, urlopen

import httpx
import pytest
import redis
from support.browser import browser
from support.pages import Shop
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet import Approve, Fleet

CLIENTS = 200
COUNTING = """
import asyncio

from service import app


@app.get("/tasks")
async def tasks() -> int:
    return len(asyncio.all_tasks())
"""


@pytest.mark.slow
def test_the_page_from_the_fleet_to_a_reader_that_comes_back(tmp_path: Path, own_redis_url: str) -> None:
    """Two readings with a decision in between: together they have each event once."""
    port = free_port()
    with Shop(
        "docs/how-to/fastapi.md",
        tmp_path,
        redis_url=own_redis_url,
        addresses={"8000": str(port)},
        only=(
            "myfleet.py",
            "worker",
            "service.py",
            "server",
            "listen.py",
            "first reading",
            "what first reading prints",
            "approval",
            "second reading",
            "what second reading prints",
        ),
    ) as shop:
        shop.write("myfleet.py", "service.py", "listen.py")
        with shop.running("worker"), shop.running("server"):
            eventually(lambda: _answers(port), what="the service")
            shop.shell("first reading")
            shop.shell("approval")
            shop.shell("second reading")
            assert (
                httpx.put(
                    f"http://127.0.0.1:{port}/letters/letter-1", json={"wish": "Another."}, timeout=60
                ).status_code
                == 409
            )
            assert httpx.get(f"http://127.0.0.1:{port}/letters/letter-2/events", timeout=60).status_code == 404
            assert httpx.get(f"http://127.0.0.1:{port}/letters/no letter/events", timeout=60).status_code == 404


@pytest.mark.slow
def test_a_browser_comes_back_after_the_service_was_away(tmp_path: Path, own_redis_url: str) -> None:
    """The service restarts while the page is open: the page goes on where it stood, and shows nothing twice."""
    port = free_port()
    with (
        browser() as window,
        Shop(
            "docs/how-to/fastapi.md",
            tmp_path,
            redis_url=own_redis_url,
            addresses={"8000": str(port)},
            only=("myfleet.py", "worker", "service.py", "server", "page.html"),
        ) as shop,
    ):
        shop.write("myfleet.py", "service.py", "page.html")
        with shop.running("worker"), Fleet(own_redis_url) as fleet:
            run = fleet.run("letter-1")
            with shop.running("server"):
                eventually(lambda: _answers(port), what="the service")
                _put(port, "letter-1")
                window.open(f"http://127.0.0.1:{port}/?letter=letter-1")
                window.wait_for("May it send this? Dear Ada, good morning!")
            with shop.running("server"):
                run.resume({run.interrupts()[0].id: Approve()})
                window.wait_for("It is on its way to Ada.")
                assert window.text.count("May it send this?") == 1


@pytest.mark.slow
def test_200_clients_that_go_away_at_once_leave_nothing_and_cancel_nothing(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    """Each has had an event when it goes; afterwards there is no subscription, task or connection more than before."""
    port = free_port()
    with Shop(
        "docs/how-to/fastapi.md",
        tmp_path,
        redis_url=own_redis.url,
        addresses={"8000": str(port), "service:app": "counting:app"},
        only=("myfleet.py", "service.py", "worker", "server"),
    ) as shop:
        shop.write("myfleet.py", "service.py")
        (tmp_path / "counting.py").write_text(COUNTING)
        with shop.running("worker"), shop.running("server"), redis.Redis.from_url(own_redis.url) as server:
            eventually(lambda: _answers(port), what="the service")
            _put(port, "letter-1")
            with Fleet(own_redis.url) as fleet:
                run = fleet.run("letter-1")
                eventually(lambda: run.status().state == "paused", what="the pause")
                asyncio.run(_come_and_go(port, 1))
                eventually(lambda: _subscriptions(server) == 0, what="the end of the one subscription")
                before = _count(port, server)
                asyncio.run(_come_and_go(port, CLIENTS))
                eventually(
                    lambda: all(count <= before[name] for name, count in _count(port, server).items()),
                    what=f"no more than there was before, {before}",
                )
                assert run.status().state == "paused"
                run.resume({run.interrupts()[0].id: Approve()})
                assert run.result(timeout=60).text == "It is on its way to Ada."


async def _come_and_go(port: int, clients: int) -> None:
    """Open so many streams, wait until each has had the events that there are, and cut all of them off."""
    streams = await asyncio.gather(*(_open(port) for _ in range(clients)))
    assert await asyncio.to_thread(_tasks, port) > clients
    for writer in streams:
        writer.transport.abort()


async def _open(port: int) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /letters/letter-1/events HTTP/1.1\r\nHost: test\r\n\r\n")
    async with asyncio.timeout(60):
        await reader.readuntil(b"event: approval")
    return writer


def _tasks(port: int) -> int:
    with urlopen(f"http://127.0.0.1:{port}/tasks", timeout=60) as answer:
        tasks: int = json.load(answer)
    return tasks


def _subscriptions(server: "redis.Redis") -> int:
    names = server.pubsub_channels("*:e:letter-1")
    return sum(count for _, count in server.pubsub_numsub(*names))


def _count(port: int, server: "redis.Redis") -> dict[str, int]:
    return {
        "subscriptions": _subscriptions(server),
        "tasks": _tasks(port),
        "connections": len(server.client_list()),
    }


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=60):
            return True
    except OSError:
        return False


def _put(port: int, letter: str) -> None:
    body = json.dumps({"wish": "Wish Ada a good morning."}).encode()
    headers = {"Content-Type": "application/json"}
    address = f"http://127.0.0.1:{port}/letters/{letter}"
    with urlopen(Request(address, body, headers, method="PUT"), timeout=60) as answer:
        assert answer.status == 202
