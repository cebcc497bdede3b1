"""What the compose file promises, read from it."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from compose.composition import (
    COMPOSE,
    COMPOSE_FILE,
    MissingVariableError,
    document,
    example_variables,
    services,
    stop_grace,
)

from turnfleet.store import Keys
from turnfleet.wire.acl import acl_rules
from turnfleet_worker.pool import runtime

OURS = ("worker", "flower", "producer")
ROLES = {"producer": "producer", "worker": "worker", "flower": "monitor"}
SECRETS = (
    "REDIS_PASSWORD",
    *(f"REDIS_{role.upper()}_PASSWORD" for role in ROLES.values()),
    "FLOWER_USER",
    "FLOWER_PASSWORD",
)
PROVIDERS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}


@pytest.fixture
def composed(variables: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Give the services as they are with a filled in .env."""
    return services(variables)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_that_is_not_set_is_asked_for_by_name(secret: str, variables: dict[str, str]) -> None:
    """Nothing starts with a password that stands in a public file."""
    assert example_variables()[secret] == ""
    with pytest.raises(MissingVariableError, match=f"set {secret} in compose/.env"):
        services({**variables, secret: ""})


def test_the_example_names_every_variable_and_no_other() -> None:
    """What can be set is explained, with the default that the file has."""
    text = COMPOSE_FILE.read_text()
    used = dict(re.findall(r"\$\{(\w+)(?::[-?]([^}]*))?\}", text))
    assert set(example_variables()) == set(used)
    assert {name: used[name] for name in used if name not in SECRETS} == {
        name: value for name, value in example_variables().items() if name not in SECRETS
    }


def test_every_variable_is_explained() -> None:
    """Each stands below a sentence."""
    blocks = (COMPOSE / ".env.example").read_text().split("\n\n")
    unexplained = [block for block in blocks if re.search(r"^#?\w+=", block, re.MULTILINE) and block[:2] != "# "]
    assert unexplained == []


def test_each_service_is_a_user_with_the_least_that_it_needs(variables: dict[str, str]) -> None:
    """The rules are those of `turnfleet acl`, for the fleet of this name; nobody but a person is the default user."""
    whole = document({**variables, "FLEET_NAME": "shop"})
    users = dict(line.split(" ", 2)[1:] for line in whole["configs"]["users.acl"]["content"].splitlines())
    rules = acl_rules(Keys("shop"))
    assert users == {
        "default": f"on >{variables['REDIS_PASSWORD']} ~* &* +@all",
        **{role: f"reset on >{variables[f'REDIS_{role.upper()}_PASSWORD']} {rules[role]}" for role in rules},
    }
    logins = {name: urlsplit(whole["services"][name]["environment"]["TURNFLEET_REDIS_URL"]) for name in ROLES}
    assert {name: login.username for name, login in logins.items()} == ROLES
    assert whole["services"]["redis"]["configs"] == [
        {"source": "users.acl", "target": "/usr/local/etc/redis/users.acl"}
    ]


def test_workers_can_be_scaled(composed: dict[str, dict[str, Any]]) -> None:
    """Nothing of a worker can exist only once: no name, no published port, no volume."""
    assert {"container_name", "ports", "volumes", "hostname"} & set(composed["worker"]) == set()
    assert composed["worker"]["deploy"]["replicas"] == "2"


def test_a_worker_has_more_time_to_stop_than_it_takes(composed: dict[str, dict[str, Any]]) -> None:
    """The drain, what the pool may take to hand back, and to let go, fit into the grace with a quarter to spare."""
    drain = float(composed["worker"]["environment"]["DRAIN_SECONDS"])
    longest = drain + runtime.STOP_GRACE_SECONDS + 2 * runtime.CANCEL_GRACE_SECONDS
    assert longest * 1.25 <= stop_grace(composed["worker"])


def test_only_flower_is_published_and_only_on_loopback(composed: dict[str, dict[str, Any]]) -> None:
    """Nobody outside the machine reaches anything, and Redis' network leads nowhere."""
    published = {name: service["ports"] for name, service in composed.items() if "ports" in service}
    assert published == {"flower": ["127.0.0.1:5555:5555"]}
    assert composed["redis"]["networks"] == ["store"]


def test_the_run_stores_network_has_no_way_out(variables: dict[str, str]) -> None:
    """A Redis that was broken into calls nobody."""
    assert document(variables)["networks"]["store"] == {"internal": True}


def test_the_runs_are_in_a_named_volume(variables: dict[str, str]) -> None:
    """`docker compose down` and a newer image keep them."""
    whole = document(variables)
    assert "redis-data:/data" in whole["services"]["redis"]["volumes"]
    assert "redis-data" in whole["volumes"]


@pytest.mark.parametrize("name", OURS)
def test_our_processes_may_do_nothing_that_they_do_not_need(name: str, composed: dict[str, dict[str, Any]]) -> None:
    """No capability, no new privilege, no file written but in /tmp; and no service overrides the image's user."""
    service = composed[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108 - a path inside the container
    assert "user" not in service
    assert "privileged" not in service


def test_only_workers_get_the_providers_keys(composed: dict[str, dict[str, Any]]) -> None:
    """Flower and producers call no model."""
    holding = {name for name, service in composed.items() if PROVIDERS & set(service.get("environment", {}))}
    assert holding == {"worker"}


def test_all_but_the_example_start_by_default_and_again_after_a_crash(composed: dict[str, dict[str, Any]]) -> None:
    """The producer runs once, when it is asked to."""
    assert {name: service.get("profiles") for name, service in composed.items() if "profiles" in service} == {
        "producer": ["example"]
    }
    assert {name: service["restart"] for name, service in composed.items()} == {
        "redis": "unless-stopped",
        "worker": "unless-stopped",
        "flower": "unless-stopped",
        "producer": "no",
    }


def test_everything_waits_for_a_redis_that_answers(composed: dict[str, dict[str, Any]]) -> None:
    """A server that is still loading its append-only file is not there yet; and everything else stops before it."""
    assert {composed[name]["depends_on"]["redis"]["condition"] for name in OURS} == {"service_healthy"}
    assert [name for name in composed if name != "producer" and "healthcheck" not in composed[name]] == []
