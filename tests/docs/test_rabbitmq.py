"""The RabbitMQ page, with a real RabbitMQ; where there is none it says so."""

import os
from pathlib import Path

import pytest
from kombu import Connection, Queue
from support.pages import Shop

SHOWN = "amqp://guest:guest@localhost:5672//"
BROKER = os.environ.get("TURNFLEET_TEST_AMQP_URL", SHOWN)


@pytest.mark.slow
def test_the_page_from_a_fleet_to_an_answer(tmp_path: Path, own_redis_url: str) -> None:
    """The fleet's name is the test's own, since the broker is shared; its queue is deleted afterwards."""
    name = f"warren{os.getpid()}"
    with Connection(BROKER, connect_timeout=10) as connection:
        try:
            connection.ensure_connection(max_retries=1)
        except OSError as error:
            pytest.skip(f"not run: no RabbitMQ answers ({type(error).__name__}); set TURNFLEET_TEST_AMQP_URL")
        with Shop(
            "docs/how-to/rabbitmq.md", tmp_path, redis_url=own_redis_url, addresses={"warren": name, SHOWN: BROKER}
        ) as shop:
            shop.write("myfleet.py")
            with shop.running("worker"):
                shop.python("enqueue.py")
        Queue(f"turnfleet.{name}").bind(connection.default_channel).delete()
