"""Names of keys: one slot for all of a run, and nothing in an id that could leave it."""

import pytest
from redis.crc import key_slot

from turnfleet.errors import InvalidId
from turnfleet.store import Keys, validate_id


def test_a_run_s_keys_and_indexes_share_a_slot() -> None:
    """So that one script changes them together, on Redis Cluster too (DESIGN 1, "Keys")."""
    keys = Keys("default", shards=16)
    for run_id in ("a", "run:2", "x@y"):
        prefix = keys.prefix(keys.shard(run_id))
        names = [keys.record(run_id), keys.journal(run_id), keys.events(run_id), keys.interrupts(run_id)]
        names += [prefix, prefix + "due", prefix + "open", prefix + "gone", prefix + "s:queued", prefix + "t:acme"]
        assert len({key_slot(name.encode()) for name in names}) == 1


def test_runs_spread_over_the_shards() -> None:
    """By CRC-32 of the run id: the same everywhere, in every language."""
    keys = Keys("default", shards=16)
    assert {keys.shard(f"run-{number}") for number in range(1_000)} == set(range(16))
    assert keys.record("123456789") == "{default:6}:r:123456789"  # CRC-32 0xCBF43926


@pytest.mark.parametrize("value", ["", "a b", "a/b", "a{b}", "ä", "a\n", "x" * 201])
def test_bad_ids_are_refused_by_name(value: str) -> None:
    """The error names the kind and the rule, and shows at most a bit of the value."""
    with pytest.raises(InvalidId, match="thread id") as refusal:
        validate_id("thread id", value)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("value", ["a", "A-Z.a_z:0@9", "x" * 200])
def test_good_ids_are_given_back(value: str) -> None:
    """One to 200 characters."""
    assert value == validate_id("run id", value)


@pytest.mark.parametrize("fleet", ["", "a:b", "a{b", "x" * 65])
def test_bad_fleet_names_are_refused(fleet: str) -> None:
    """They stand inside a hash tag."""
    with pytest.raises(InvalidId, match="fleet name"):
        Keys(fleet)


def test_settings_that_lose_runs_are_refused() -> None:
    """No shards, no log."""
    for settings in ({"shards": 0}, {"log_batches": 0}, {"first_look_ms": -1}):
        with pytest.raises(ValueError, match="at least"):
            Keys("default", **settings)  # type: ignore[arg-type]
