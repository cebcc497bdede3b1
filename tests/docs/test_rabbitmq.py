"""The RabbitMQ page, with a real RabbitMQ; where there is none it says so."""

import os
import socket
from pathlib import Path

import pytest
from kombu import Connection, Queue
from support.pages import Shop

BROKER = "amqp://guest:guest@localhost:5672//"


def _rabbitmq_answers() -> bool:
    try:
        with socket.create_connection(("localhost", 5672), timeout=2):
            return True
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not _rabbitmq_answers(), reason="NOT RUN: no RabbitMQ answers on localhost:5672")
def test_the_page_from_a_fleet_to_an_answer(tmp_path: Path, own_redis_url: str) -> None:
    """The fleet's name is the test's own, since the broker is shared; its queue is deleted afterwards."""
    name = f"warren{os.getpid()}"
    with Shop("docs/how-to/rabbitmq.md", tmp_path, redis_url=own_redis_url, addresses={"warren": name}) as shop:
        shop.write("myfleet.py")
        with shop.running("worker"):
            shop.python("enqueue.py")
    with Connection(BROKER) as connection:
        Queue(f"turnfleet.{name}").bind(connection.default_channel).delete()
