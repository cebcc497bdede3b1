"""What importing the kernel loads, and what it leaves for later."""

import subprocess
import sys

import turnfleet_kernel

KERNEL_AND_PYDANTIC = {"turnfleet_kernel", "pydantic", "pydantic_core", "annotated_types", "typing_extensions"}
ALLOWED = KERNEL_AND_PYDANTIC | {"typing_inspection", "rfc8785", "_pydantic_core"}


def loaded_by(statement: str) -> set[str]:
    """Name the modules that a fresh interpreter has after a statement, and had not before it."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def foreign(modules: set[str]) -> set[str]:
    """Name the top-level packages that are not the standard library's."""
    packages = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    return {name for name in packages if not name.startswith("_sysconfigdata")}


def test_the_whole_kernel_loads_pydantic_and_nothing_else() -> None:
    """No broker, store, provider or schema library, whatever of it is imported (STYLE: what each wing may import)."""
    loaded = loaded_by("from turnfleet_kernel import *; import turnfleet_kernel.testing")
    assert foreign(loaded) - ALLOWED == set()
    assert {"turnfleet_kernel.runner", "turnfleet_kernel.resuming"} <= loaded


def test_values_are_had_without_the_engine() -> None:
    """A service that enqueues runs never loads what runs them."""
    for statement in (
        "import turnfleet_kernel",
        "from turnfleet_kernel import PlanSpec, TurnRequest, Approve, KernelEvent, plan_id",
        "import turnfleet_kernel.contracts.json, turnfleet_kernel.contracts.record, turnfleet_kernel.errors",
    ):
        own = {name for name in loaded_by(statement) if name.startswith("turnfleet_kernel.")}
        assert {name for name in own if not name.startswith("turnfleet_kernel.contracts")} == {
            "turnfleet_kernel.errors"
        }
        assert "asyncio" not in loaded_by(statement)


def test_every_exported_name_is_there() -> None:
    """Loaded at once or when it is asked for; others are told by name."""
    assert {name for name in turnfleet_kernel.__all__ if getattr(turnfleet_kernel, name, None) is None} == set()
    assert set(turnfleet_kernel.__all__) <= set(dir(turnfleet_kernel))
    assert sorted(turnfleet_kernel.__all__) == sorted(set(turnfleet_kernel.__all__))
    assert not hasattr(turnfleet_kernel, "InvocationKernels")
