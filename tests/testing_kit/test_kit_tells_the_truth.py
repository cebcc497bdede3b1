"""The kit must not lie: every scenario looks the same on it and on a real fleet."""

from collections.abc import Callable
from typing import Any

import pytest
from testing_kit.conftest import LocalStage, RealStage
from testing_kit.expected import EXPECTED
from testing_kit.scenarios import Stage

Scenario = Callable[[Stage], Any]
every_scenario = pytest.mark.parametrize("scenario", EXPECTED, ids=lambda scenario: scenario.__name__)


@every_scenario
def test_on_a_local_fleet(scenario: Scenario, local_stage: LocalStage) -> None:
    """In this process, with skipped time."""
    assert scenario(local_stage) == EXPECTED[scenario]


@every_scenario
@pytest.mark.slow
def test_on_a_real_fleet(scenario: Scenario, real_stage: RealStage) -> None:
    """With a real Redis, a real worker process, and real time."""
    assert scenario(real_stage) == EXPECTED[scenario]
