"""The kernel's clauses, where each is kept and what would notice if it were not: writes or checks docs/contract.md.

::

    python tests/tools/contract_table.py            # write the page
    python tests/tools/contract_table.py --check    # exit 1 if the page is stale or a clause is cited by no test

A clause is cited by its id: in a docstring or comment of a module of the kernel, and in a docstring of, or a comment
in or above, a test of the kernel. ``HK-3 to HK-6`` and ``CXL-3 to 7`` cite all in between.
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernel" / "turnfleet_kernel"
TESTS = ROOT / "tests" / "kernel"
PAGE = ROOT / "docs" / "contract.md"

CLAUSES: dict[str, dict[str, str]] = {
    "The plan": {
        "IPL-1": "nothing in a plan can change",
        "IPL-2": "one loop, however its events are consumed",
        "IPL-3": "a wire form of names, a compiled form of ports, and one error for all unknown names",
        "IPL-4": "a plan is named by its content",
        "IPL-5": "a tool that the plan does not name cannot be called",
        "IPL-6": "the model is chosen once a run",
        "IPL-7": "limits without sense are refused where they are declared",
    },
    "The loop": {
        "STG-1": "stages run in order, each leaves one trace, its policy decides what a failure means",
        "STG-2": "no stage can be declared in a phase of the kernel's own",
        "STG-3": "what each phase sees and may change",
        "STG-4": "stages spend the run's time",
        "STG-5": "the output is extracted before anything is committed, and once",
        "STG-6": "a limit ends a run with its own stop reason, without an error",
        "STG-7": "prompts are assembled by a pure function",
        "STG-8": "published inputs are frozen, each by one stage",
        "STG-9": "the operations that the kernel offers one by one",
        "STG-10": "with an egress stage nothing of a round leaves before it was accepted",
    },
    "The context": {
        "RCX-1": "a context lives as long as its invocation",
        "RCX-2": "each slot of it is written in one place",
        "RCX-3": "a context serves one invocation",
        "RCX-5": "an invocation sees one plan",
        "RCX-6": "resolved inputs are bound once",
        "RCX-7": "notes are kept by invocation and capability",
        "RCX-8": "background work ends with the run that owns it",
        "RCX-10": "invocations share their plan and nothing else",
        "RCX-11": "a run is torn down once, and reports how",
        "RES-3": "call ids are unique within a run",
    },
    "Events": {
        "EVT-1": "an event is frozen and carries what its kind says",
        "EVT-2": "indices have no hole",
        "EVT-3": "which kinds there are, and what makes them",
        "EVT-4": "one terminal event, last",
        "EVT-5": "the sink first; a sink breaks no run",
        "EVT-6": "the outcome in the last event",
        "EVT-7": "a failure is an event and an exception",
        "EVT-8": "a slow consumer slows the run",
        "EVT-9": "a sink is bound to its run before the first event",
        "EVT-10": "a sink that hangs holds no run open",
        "EVT-11": "a pause is named after the first thing waited for",
        "EVT-12": "over a run each call, result and round is told once",
    },
    "Leaving": {
        "CXL-3": "a cancellation passes through",
        "CXL-4": "tools end with the run",
        "CXL-5": "a consumer that leaves ends the run",
        "CXL-6": "one deadline for all running time, told apart from others' timeouts",
        "CXL-7": "a hand-over publishes no end and lets running tools finish",
        "HK-1": "a pause is an end without error",
        "HK-2": "tools and pre-tool stages may pause, and nobody in between can swallow it",
        "HK-3": "the record of a pause is enough to go on from",
        "HK-4": "going on is the same loop with replaying ports",
        "HK-5": "several calls may wait, and be answered one by one",
        "HK-6": "which decisions there are, and what they must fit",
    },
    "Tools": {
        "TOL-1": "calls run at once, outcomes keep their order",
        "TOL-2": "what a tool raises is told to the model",
        "TOL-3": "arguments are checked, unknown tools refused, in words for the model",
        "TOL-4": "a pause cuts no sibling off",
    },
    "Delegation": {
        "DEL-1": "a child has an identity and a depth, and spends for its parent",
        "DEL-2": "what a run's scope says of it",
        "DEL-3": "a delegated run holds one slot, on every path",
        "DEL-4": "outside any run there is nothing to say",
        "DEL-5": "siblings are kept apart",
        "DEL-6": "a child's pause pauses its parents, and goes on there",
    },
}

FAMILIES = "IPL|STG|RCX|RES|EVT|CXL|HK|TOL|DEL"
CITED = re.compile(rf"\b({FAMILIES})-(\d+)(?: to (?:(?:{FAMILIES})-)?(\d+))?\b")

HEAD = """# The contract, clause by clause

Which module keeps each clause of the kernel's contract, and which tests notice when it is broken. This page is
generated by `tests/tools/contract_table.py` from the ids that modules and tests cite; `make check` compares it.
"""


def cited(text: str) -> set[str]:
    """List the ids that a text cites."""
    ids = set()
    for family, first, last in CITED.findall(text):
        ids |= {f"{family}-{number}" for number in range(int(first), int(last or first) + 1)}
    return ids


def modules_by_clause() -> dict[str, list[str]]:
    """List the modules of the kernel that cite each clause."""
    found = defaultdict(list)
    for path in sorted(KERNEL.rglob("*.py")):
        for clause in cited(path.read_text(encoding="utf-8")):
            found[clause].append(str(path.relative_to(KERNEL)))
    return found


def tests_by_clause() -> dict[str, list[str]]:
    """List the tests of the kernel that cite each clause, with the comments that stand above them."""
    found = defaultdict(list)
    for path in sorted(TESTS.glob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        lines, seen_to = source.splitlines(), 0
        for node in ast.parse(source).body:
            text = "\n".join(lines[seen_to : node.end_lineno])
            seen_to = node.end_lineno or 0
            name = getattr(node, "name", "")
            if name.startswith("test_") or name.endswith("Machine"):
                for clause in cited(text):
                    found[clause].append(f"{path.stem}::{name}")
    return found


def problems(modules: dict[str, list[str]], tests: dict[str, list[str]]) -> list[str]:
    """Say which clauses are kept or tested nowhere, and which cited ids are no clauses."""
    known = {clause for part in CLAUSES.values() for clause in part}
    return [
        *(f"{clause} is cited by no module of the kernel" for clause in sorted(known - modules.keys())),
        *(f"{clause} is cited by no test of the kernel" for clause in sorted(known - tests.keys())),
        *(
            f"{clause} is no clause (cited in {', '.join(modules[clause])})"
            for clause in sorted(modules.keys() - known)
        ),
        *(f"{clause} is no clause (cited in {', '.join(tests[clause])})" for clause in sorted(tests.keys() - known)),
    ]


def page(modules: dict[str, list[str]], tests: dict[str, list[str]]) -> str:
    """Write the page."""
    parts = [HEAD]
    for title, clauses in CLAUSES.items():
        parts.append(f"\n## {title}\n\n| clause | says | kept in | tests |\n|---|---|---|---|\n")
        for clause, says in clauses.items():
            kept = ", ".join(f"`{name}`" for name in modules[clause])
            noticed = "<br>".join(f"`{name}`" for name in tests[clause])
            parts.append(f"| {clause} | {says} | {kept} | {noticed} |\n")
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Write the page, or check it; gives the exit code."""
    modules, tests = modules_by_clause(), tests_by_clause()
    wrong = problems(modules, tests)
    written = page(modules, tests)
    if "--check" in arguments:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != written:
            wrong.append(f"docs/contract.md is stale; run python {Path(__file__).relative_to(ROOT)}")
    else:
        PAGE.write_text(written, encoding="utf-8")
    for problem in wrong:
        sys.stderr.write(f"{problem}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
