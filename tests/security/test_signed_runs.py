"""A worker with keys runs what somebody with a key asked for, and nothing else (design/signing.md)."""

import json
from typing import Any

import pytest
from security.kit import KEYS, NEW_KEYS, OLD_KEYS, PLAN, Site, error_of

from turnfleet import Approve, AsyncFleet, BadSignature, PlanSpec, SigningKeys, UnknownRun
from turnfleet.wire import Envelope, request_digest, sign_envelope
from turnfleet_kernel.contracts.spec import plan_id

EVIL = PlanSpec(name="desk", model="hasty", tools=("refund", "hasty"))
OPTIONS: dict[str, Any] = {
    "tenant": "acme",
    "deadline_seconds": 30,
    "expires": 3600,
    "metadata": {"team": "a", "n": 9007199254740993},
}


def ok(results: list[Any]) -> str:
    """Give the state that the one message left its run in."""
    (result,) = results
    assert isinstance(result, dict), result
    return str(result["state"])


async def test_a_signed_run_runs_to_its_end(site: Site) -> None:
    """Enqueue, claim, pause, decide, resume: every step of it signed and checked."""
    async with site.fleet() as fleet, site.host() as host:
        run = await fleet.enqueue(PLAN, "please", run_id="r", **OPTIONS)
        assert ok(await site.deliver(host)) == "paused"
        (waiting,) = await run.interrupts()
        await run.resume({waiting.id: Approve()}, by="ann", roles=("finance",))
        assert ok(await site.deliver(host)) == "completed"
        assert site.made == ["r:80"]
        assert {word for word in host.counts if word != "claimed"} == set()


def altered() -> dict[str, dict[str, str | None]]:
    """Spell out what somebody may write into a record who wants something else to run, or elsewhere, or longer."""
    evil_id = plan_id(EVIL)
    evil = json.dumps(EVIL.model_dump(mode="json", exclude_defaults=True))
    good_id = plan_id(PLAN)
    asked = {"prompt": "please, all of it"}
    return {
        "another plan": {"plan": evil},
        "another plan with its id": {"plan": evil, "plan_id": evil_id},
        "another plan, its id and its digest": {
            "plan": evil,
            "plan_id": evil_id,
            "digest": request_digest(evil_id, {"prompt": "please"}),
        },
        "the id of another plan": {"plan_id": evil_id},
        "another digest": {"digest": request_digest(evil_id, {"prompt": "please"})},
        "another prompt": {"request": json.dumps(asked)},
        "another prompt with its digest": {"request": json.dumps(asked), "digest": request_digest(good_id, asked)},
        "another queue": {"queue": "fast"},
        "a better priority": {"priority": "9"},
        "a thread": {"thread": "t"},
        "another tenant": {"tenant": "rival"},
        "no tenant": {"tenant": None},
        "a longer life": {"expires": "99999999999999"},
        "no expiry": {"expires": None},
        "an eta": {"eta": "1"},
        "a longer deadline": {"deadline": "3000.0"},
        "other labels": {"metadata": '{"team": "b"}'},
        "a plan that is none": {"plan": '{"name": 7}'},
        "labels that are none": {"metadata": "[1]"},
        "the other signer": {"kid": "old"},
        "an unknown signer": {"kid": "who"},
        "another signature": {"sig": "0" * 64},
        "no signature": {"sig": None},
        "no signature at all": {"sig": None, "kid": None},
        "as if it had come as a message": {"foreign": "1"},
    }


@pytest.mark.parametrize("case", altered())
async def test_a_record_that_was_altered_is_not_run(site: Site, case: str) -> None:
    """Whoever writes into Redis cannot change what runs: the run fails and says why; no model, no tool is called."""
    async with site.fleet() as fleet, site.host() as host:
        await fleet.enqueue(PLAN, "please", run_id="r", **OPTIONS)
        await site.messages()
        await site.alter("r", **altered()[case])
        result = await site.offer(host, "r")
        assert isinstance(result, BadSignature)
        error = await error_of(fleet, "r")
        assert error == f"BadSignature: {result}"
        assert error.startswith("BadSignature: run 'r' ")
        assert site.made == []
        kinds = [event.kind async for event in fleet.run("r").events()]
        assert kinds == ["error"]
        (counted,) = [word for word in host.counts if word.startswith("run ")]
        assert counted in {"run altered", "run unsigned", "run unknown key"}


ALTERED_MESSAGES: dict[str, dict[str, Any]] = {
    "another run": {"run_id": "other"},
    "another plan": {"plan": EVIL.model_dump(mode="json"), "plan_id": None, "digest": None},
    "another prompt": {"request": {"prompt": "all of it"}, "digest": None},
    "a better priority": {"options": {"priority": 9}},
    "a thread": {"options": {"thread_id": "t"}},
    "no options": {"options": None},
    "no record needed": {"recorded": None},
    "no signature": {"kid": None, "sig": None},
    "another signer": {"kid": "old"},
    "an unknown signer": {"kid": "who"},
    "an offer with the run's signature": {"plan": None, "request": None},
}


@pytest.mark.parametrize("case", ALTERED_MESSAGES)
async def test_a_message_that_was_altered_is_dropped_and_its_run_unharmed(site: Site, case: str) -> None:
    """It is refused before anything is looked at; the right message then finds the run as it was."""
    async with site.fleet() as fleet, site.host() as host:
        await fleet.enqueue(PLAN, "please", run_id="r", tenant="acme")
        (message,) = await site.messages()
        wrong = {name: value for name, value in (message | ALTERED_MESSAGES[case]).items() if value is not None}
        (refused,) = await site.deliver(host, wrong)
        assert isinstance(refused, BadSignature), refused
        assert str(refused).startswith("the message for run ")
        assert sum(number for word, number in host.counts.items() if word.startswith("message ")) == 1
        assert (await fleet.run("r").status()).state == "queued"
        with pytest.raises(UnknownRun):
            await fleet.run("other").status()
        assert ok(await site.deliver(host, message)) == "paused"


async def test_an_offer_is_signed_by_whoever_publishes_it(site: Site) -> None:
    """A worker's sweep and a client's resume sign what a re-offer says; nobody else can make a worker look."""
    async with site.fleet() as fleet, site.host() as host:
        run = await fleet.enqueue(PLAN, "please", run_id="r")
        await site.deliver(host)
        (waiting,) = await run.interrupts()
        await run.resume({waiting.id: Approve()}, by="ann", roles=("finance",))
        (offer,) = await site.messages()
        assert (offer["kid"], "plan" in offer) == ("new", False)
        for wrong in (offer | {"sig": "0" * 64}, offer | {"options": {"thread_id": "t"}}):
            (refused,) = await site.deliver(host, wrong)
            assert isinstance(refused, BadSignature)
        assert ok(await site.deliver(host, offer)) == "completed"


async def test_a_message_that_brings_its_own_record_cannot_be_made_of_one_that_needs_it(site: Site) -> None:
    """A run that was deleted is not run again because somebody kept its first message."""
    async with site.fleet() as fleet, site.host() as host:
        run = await fleet.enqueue(PLAN, "please", run_id="r")
        (message,) = await site.messages()
        await run.cancel()
        await run.delete()
        (dropped,) = await site.deliver(host, message)
        (refused,) = await site.deliver(host, {name: value for name, value in message.items() if name != "recorded"})
        assert "gone" in str(dropped)
        assert isinstance(refused, BadSignature)
        with pytest.raises(UnknownRun):
            await run.status()


async def test_a_foreign_message_that_is_signed_makes_a_record_that_is(site: Site) -> None:
    """The signature of a message that brings its record goes into it, and holds after a crash of the worker."""
    envelope = Envelope.model_validate(
        {"fleet": site.name, "run_id": "r", "plan": PLAN, "request": {"prompt": "please"}}
    )
    async with site.fleet() as fleet, site.host() as host:
        (refused,) = await site.deliver(host, envelope.to_json())
        assert isinstance(refused, BadSignature)
        assert ok(await site.deliver(host, sign_envelope(NEW_KEYS, envelope).to_json())) == "paused"
        run = fleet.run("r")
        (waiting,) = await run.interrupts()
        await run.resume({waiting.id: Approve()}, by="ann", roles=("finance",))
        assert ok(await site.deliver(host)) == "completed"


async def test_a_client_whose_runs_nobody_would_take_hears_it_at_once(site: Site) -> None:
    """Live workers say which keys they have: an unsigned run is refused where it can still be signed."""
    async with site.host():
        for signing, says in (
            (None, "is not signed"),
            (SigningKeys({"mine": b"m" * 32}), "signed with the key 'mine'"),
        ):
            async with site.fleet(signing) as fleet:
                with pytest.raises(BadSignature, match=says) as refused:
                    await fleet.enqueue(PLAN, "please", run_id="r")
                assert refused.value.known == ("new", "old")
                with pytest.raises(UnknownRun):
                    await fleet.run("r").status()


async def test_a_worker_without_keys_runs_what_is_signed_and_what_is_not(site: Site) -> None:
    """Keys can be given to producers first. It checks nothing, and says so in its announcement."""
    site.signing = None
    async with site.host(None) as host:
        for run_id, signing in (("signed", KEYS), ("plain", None)):
            async with site.fleet(signing) as fleet:
                await fleet.enqueue(PLAN, "please", run_id=run_id)
                assert ok(await site.deliver(host)) == "paused"
                assert [worker["signing"] for worker in await fleet.workers()] == [None]


async def rotate(site: Site, fleet: AsyncFleet) -> None:
    """Pause a run that was signed with the old key, decide it with the new one, and take the old one away."""
    async with site.host(KEYS) as host:
        run = await fleet.enqueue(PLAN, "please", run_id="r")
        assert ok(await site.deliver(host)) == "paused"
    async with site.fleet(NEW_KEYS) as later:
        (waiting,) = await run.interrupts()
        await later.run("r").resume({waiting.id: Approve()}, by="ann", roles=("finance",))


async def test_a_rotation_loses_no_run_while_both_keys_verify(site: Site) -> None:
    """Signed with the old key, paused over the rotation, decided with the new one."""
    async with site.fleet(OLD_KEYS) as fleet:
        await rotate(site, fleet)
        async with site.host(KEYS) as host:
            assert ok(await site.deliver(host)) == "completed"


async def test_a_run_whose_key_was_taken_away_too_soon_goes_on_when_it_is_back(site: Site) -> None:
    """It fails, saying which key it wants; with that key and a retry it goes on from where it stood."""
    async with site.fleet(OLD_KEYS) as fleet:
        await rotate(site, fleet)
        async with site.host(NEW_KEYS) as host:
            (refused,) = await site.deliver(host)
            assert isinstance(refused, BadSignature)
            assert "signed with the key 'old'" in await error_of(fleet, "r")
            assert "retry the run" in await error_of(fleet, "r")
        async with site.host(KEYS) as host:
            await fleet.run("r").retry()
            assert ok(await site.deliver(host)) == "completed"
            assert site.made == ["r:80"]
