"""What a seed decides, and the file that knows what really happened."""

import json
import threading
from pathlib import Path

from turnfleet_worker.chaos.faults import FAULT_KINDS, plan_faults
from turnfleet_worker.chaos.ledger import Ledger, Reply
from turnfleet_worker.chaos.workload import KINDS, write_scripts


def test_a_seed_gives_the_same_runs_and_the_same_faults_again() -> None:
    """What was found can be looked for again."""
    assert write_scripts(7, runs=30, seconds=20.0) == write_scripts(7, runs=30, seconds=20.0)
    assert write_scripts(7, runs=30, seconds=20.0) != write_scripts(8, runs=30, seconds=20.0)
    assert plan_faults(7, seconds=60.0, lease_seconds=4.0) == plan_faults(7, seconds=60.0, lease_seconds=4.0)
    assert plan_faults(7, seconds=60.0, lease_seconds=4.0) != plan_faults(8, seconds=60.0, lease_seconds=4.0)


def test_a_minute_has_every_kind_of_fault_and_every_kind_of_run() -> None:
    """Whatever the seed, and a freeze lasts longer than the lease."""
    for seed in range(20):
        faults = plan_faults(seed, seconds=60.0, lease_seconds=4.0)
        assert {fault.kind for fault in faults} == set(FAULT_KINDS)
        assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
        assert all(fault.at < 60.0 for fault in faults)
        assert all(fault.seconds > 4.0 for fault in faults if fault.kind == "freeze worker")
    assert {script.kind for script in write_scripts(1, runs=30, seconds=60.0)} == set(KINDS)


def test_no_two_things_to_do_share_a_slot() -> None:
    """A slot is one effect of one call of one run, delegated calls included; the prompts name them all."""
    scripts = write_scripts(3, runs=60, seconds=30.0)
    slots = [slot for script in scripts for slot in script.slots]
    assert len(slots) == len(set(slots))
    for script in scripts:
        assert all(slot in script.prompt for slot in script.slots)


def test_the_ledger_keeps_what_several_processes_write(tmp_path: Path) -> None:
    """Lines of writers that work at once do not mix; one without its end is not read."""
    path = tmp_path / "effects.jsonl"

    def write(writer: int) -> None:
        ledger = Ledger(path)
        for number in range(50):
            ledger.effect(run="r", slot=f"{writer}/{number}", call="c", tool="t", kind="k", began=1.0)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Ledger(path).reply(Reply("0/0", "in_doubt", "retry", "person", 2.0))
    Ledger(path).turn("r", 1)
    with path.open("a") as file:
        file.write(json.dumps({"what": "turn"})[:9])
    record = Ledger(path).read()
    assert {effect.slot for effect in record.effects} == {f"{writer}/{n}" for writer in range(4) for n in range(50)}
    assert (len(record.effects), len(record.replies), len(record.turns)) == (200, 1, 1)
    assert (record.made("0/0"), record.made("9/9")) == (True, False)


def test_a_ledger_that_nobody_has_written_to_is_empty(tmp_path: Path) -> None:
    """The first look may come before the first effect."""
    assert Ledger(tmp_path / "none").read().effects == ()
