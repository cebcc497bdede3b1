"""compose/docker-compose.yml as compose reads it: interpolated, with its durations in seconds."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "compose"
COMPOSE_FILE = COMPOSE / "docker-compose.yml"
VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?::([-?])([^}]*))?\}")
UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
STOP_GRACE_DEFAULT = "10s"


class MissingVariableError(Exception):
    """A `${NAME:?text}` has no value; the text says what to do."""


def interpolate(value: Any, variables: Mapping[str, str]) -> Any:
    """Return the value with its variables filled in; an empty one counts as missing, as `:` says."""
    if isinstance(value, Mapping):
        return {name: interpolate(inner, variables) for name, inner in value.items()}
    if isinstance(value, list):
        return [interpolate(inner, variables) for inner in value]
    return VARIABLE.sub(lambda found: _fill(found, variables), value) if isinstance(value, str) else value


def _fill(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, kind, text = found.groups()
    if name is None:
        return "$"
    if variables.get(name):
        return variables[name]
    if kind == "?":
        raise MissingVariableError(text)
    return text or ""


def example_variables() -> dict[str, str]:
    """Return what .env.example sets, the empty ones too."""
    lines = (COMPOSE / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def document(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the whole file, interpolated. Raises `MissingVariableError`."""
    read: dict[str, Any] = interpolate(yaml.safe_load(COMPOSE_FILE.read_text()), variables)
    return read


def services(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the services by name."""
    found: dict[str, dict[str, Any]] = document(variables)["services"]
    return found


def seconds(duration: str) -> float:
    """Return a compose duration in seconds."""
    parts = re.findall(r"(\d+)(ms|s|m|h)", duration)
    assert "".join(number + unit for number, unit in parts) == duration, f"{duration!r} is no duration"
    return float(sum(int(number) * UNIT_SECONDS[unit] for number, unit in parts))


def stop_grace(service: Mapping[str, Any]) -> float:
    """Return how long compose waits between SIGTERM and SIGKILL."""
    return seconds(service.get("stop_grace_period", STOP_GRACE_DEFAULT))
