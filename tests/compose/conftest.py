"""The services of the compose file, up and healthy on this machine."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from compose.composition import example_variables
from compose.machine import Machine
from support.waiting import eventually

HEALTHY_SECONDS = 240.0
StartMachine = Callable[..., Machine]


@pytest.fixture(scope="session")
def variables() -> dict[str, str]:
    """Give .env.example as a person fills it in: a value for whatever is empty and required."""
    roles = [f"REDIS_{role}_PASSWORD" for role in ("PRODUCER", "WORKER", "MONITOR")]
    filled = {name: secrets.token_hex(16) for name in ("REDIS_PASSWORD", "FLOWER_PASSWORD", *roles)}
    return {**example_variables(), **filled, "FLOWER_USER": "ann"}


@pytest.fixture
def start_machine(tmp_path: Path, variables: dict[str, str]) -> Iterator[StartMachine]:
    """Give a function that starts these services in order, each when those before are healthy by their own check."""
    with ExitStack() as stack:

        def start(*names: str, binaries: Path | None = None, **settings: str) -> Machine:
            machine = stack.enter_context(Machine(tmp_path, {**variables, **settings}, binaries=binaries))
            for name in names:
                machine.start(name)
                eventually(partial(machine.healthy, name), HEALTHY_SECONDS, what=f"the health of {name}")
            return machine

        yield start
