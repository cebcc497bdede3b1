"""What a tool's docstring tells the model: one description, and a line per parameter."""

import inspect
import re

_SECTION = re.compile(r"^(args|arguments|parameters|returns?|yields?|raises?|examples?|notes?):$", re.IGNORECASE)
_PARAMETERS = frozenset({"args", "arguments", "parameters"})
_GOOGLE = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_FIELD = re.compile(r"^:\w+[^:]*:")


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Split a docstring into the tool's description and its parameters' descriptions.

    Understood are Google's `Args:` and Sphinx' `:param name:`. Sections about returned values, errors and examples are
    for people and are left out. A docstring in no known form is all description.
    """
    prose: list[str] = []
    parameters: dict[str, list[str]] = {}
    section: str | None = None  # None: prose; "": a part that is not for the model
    current: list[str] = []
    indent = ""
    for line in inspect.cleandoc(docstring or "").splitlines():
        if heading := _SECTION.match(line):
            section = "args" if heading.group(1).lower() in _PARAMETERS else ""
            current, indent = [], ""
        elif _FIELD.match(line):
            named = _SPHINX.match(line)
            section = "sphinx" if named else ""
            current = parameters.setdefault(named.group(1), [named.group(2)]) if named else []
        elif section is None or (line and not line[0].isspace()):
            section = None
            prose.append(line)
        elif section == "args" and (named := _GOOGLE.match(line)) and named.group(1) == (indent or named.group(1)):
            # Only lines as deep as the first name a parameter: a deeper one with a colon goes on with the text.
            indent = named.group(1)
            current = parameters.setdefault(named.group(2), [named.group(3)])
        else:
            current.append(line.strip())
    described = {name: " ".join(part for part in parts if part) for name, parts in parameters.items()}
    return "\n".join(prose).strip(), {name: text for name, text in described.items() if text}
