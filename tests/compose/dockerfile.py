"""compose/Dockerfile in parts: stages, and what each instruction says."""

import json
import re
from dataclasses import dataclass, field

from compose.composition import COMPOSE, ROOT

IGNORED = re.compile(r"^\s*(#.*)?$")


@dataclass(slots=True)
class Stage:
    """One stage: what it starts from, what it is called, and its instructions in order."""

    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        """Return what all instructions of this word say."""
        return [text for each, text in self.instructions if each == word]


def stages() -> tuple[dict[str, str], list[Stage]]:
    """Return the arguments before the first stage with their defaults, and the stages."""
    lines = [line for line in (COMPOSE / "Dockerfile").read_text().splitlines() if not IGNORED.match(line)]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for line in joined:
        word, _, text = line.partition(" ")
        if word == "FROM":
            base, _, name = text.partition(" AS ")
            found.append(Stage(base, name))
        elif found:
            found[-1].instructions.append((word, text))
        else:
            name, _, value = text.partition("=")
            arguments[name] = value
    return arguments, found


def environment(stage: Stage) -> dict[str, str]:
    """Return what a stage's ENV instructions set."""
    return {name: value for text in stage.all("ENV") for name, _, value in (one.partition("=") for one in text.split())}


def exec_form(text: str) -> list[str]:
    """Return the arguments of an instruction in exec form; ValueError for shell form."""
    read: list[str] = json.loads(text)
    return read


def copied(stage: Stage) -> dict[str, list[str]]:
    """Return what comes from the build context: by target folder (absolute), paths relative to the repository."""
    folder = "/"
    found: dict[str, list[str]] = {}
    for word, text in stage.instructions:
        if word == "WORKDIR":
            folder = text
        elif word == "COPY" and not text.startswith("--from"):
            *sources, target = text.split()
            found.setdefault((folder if target == "./" else target).rstrip("/"), []).extend(sources)
    assert all((ROOT / source).exists() for sources in found.values() for source in sources)
    return found
