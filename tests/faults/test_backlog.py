"""A long backlog does not make itself longer (DESIGN 1, "Sweep")."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from store.kit import ending, new_run
from support.ports import free_port

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, SweepPolicy
from turnfleet.wire import Publisher, first_offer, reoffer
from turnfleet_worker import Registry, create_app
from turnfleet_worker.backlog import Backlog
from turnfleet_worker.offers import BrokerOffers
from turnfleet_worker.sweep import Sweeper
from turnfleet_worker.turns import Turns

RUNS = 10_000
HOUR_SECONDS = 15.0
"""An hour, scaled: 360 times the age at which an offer is first looked at, which is ten seconds in earnest."""

FIRST_LOOK_MS = round(HOUR_SECONDS * 1000 / 360)


class Yard:
    """One fleet's store, broker and sweep, and one worker that is much too slow, without its process."""

    def __init__(self, executor: AsyncExecutor, url: str, fleet: str) -> None:
        self.keys = Keys(fleet, first_look_ms=FIRST_LOOK_MS)
        self.queue = f"turnfleet.{fleet}"
        app = create_app(Registry(), url, name=fleet)
        self.publisher = Publisher(app, fleet)
        self.offers = BrokerOffers(self.publisher, Backlog(app))
        self.executor = executor
        policy = SweepPolicy(reoffer_after_ms=FIRST_LOOK_MS, reoffer_cap_ms=60 * FIRST_LOOK_MS)
        self.sweeper = Sweeper(
            executor,
            self.keys,
            owner="w",
            every_seconds=1,
            policy=policy,
            offers=self.offers,
            turns=Turns(executor, self.keys, self.offers),
            fits=lambda _run_id, _plan_id, _plan: False,
        )

    async def enqueue(self, runs: int) -> None:
        """Record runs and publish their messages, as producers do."""
        new = [new_run(f"r{number}", queue=self.queue, plan_id="a" * 64, digest="b" * 64) for number in range(runs)]
        await self.executor.execute_many([commands.create(self.keys, each) for each in new])
        messages = [(offer, reoffer(self.keys.fleet, offer)) for offer in map(first_offer, new)]
        await asyncio.to_thread(self.publisher.publish_many, messages)

    async def lose(self, run_id: str) -> None:
        """Take the oldest message off the queue, which is this run's."""
        client: Any = self.executor.client
        (lane,) = await client.keys(f"{self.queue}*[4]")
        assert json.loads(await client.rpop(lane))["headers"]["root_id"] == run_id
        await client.hincrby(self.keys.record(run_id), "offered", -1)  # not in the same millisecond as the rest

    async def offered_again(self, runs: int) -> list[str]:
        """Tell which runs have more than one offer."""
        statuses: Any = await self.executor.execute_many(
            [commands.status(self.keys, f"r{number}") for number in range(runs)]
        )
        return [status.run_id for status in statuses if status.offers > 1]

    async def sweep_for(self, seconds: float) -> None:
        """Sweep again and again, for so long: for what must not happen, however often one looks."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while loop.time() < ends:
            await self.sweeper.sweep_once()

    async def work(self, messages: int) -> int:
        """Take some messages, oldest first, and run what they name; give how many there were."""
        client: Any = self.executor.client
        (lane,) = await client.keys(f"{self.queue}*[4]") or [b"none"]
        taken = [json.loads(each) for each in await client.rpop(lane, messages) or ()]
        claims = await self.executor.execute_many(
            [
                commands.claim(
                    self.keys,
                    each["headers"]["root_id"],
                    claim_id=each["headers"]["id"],
                    worker="w",
                    lease_ms=60_000,
                    recorded=True,
                )
                for each in taken
            ]
        )
        ends = [
            commands.finish(self.keys, claim, seq=1, ending=ending(claim.run_id, 0, "completed"))
            for claim in claims
            if isinstance(claim, Claim)
        ]
        await self.executor.execute_many(ends)
        return len(taken)


@pytest.mark.slow
async def test_an_hour_of_backlog_offers_hardly_anything_twice(redis_url: str, fleet_name: str) -> None:
    """10,000 runs, one slow worker, sweeps all the while: at most 5 % of the messages were duplicates."""
    async with aclosing(AsyncExecutor(redis_url)) as executor:
        yard = Yard(executor, redis_url, fleet_name)
        try:
            await yard.enqueue(RUNS)
            loop = asyncio.get_running_loop()
            began, served = loop.time(), 0
            while (hour := (loop.time() - began) / HOUR_SECONDS) < 1:
                served += await yard.work(max(0, round(RUNS * hour) - served))
                await yard.sweeper.sweep_once()
            while await yard.work(1_000):
                pass
            statuses: Any = await executor.execute_many(
                [commands.status(yard.keys, f"r{number}") for number in range(RUNS)]
            )
            assert {status.state for status in statuses} == {"completed"}
            assert sum(status.offers - 1 for status in statuses) <= RUNS * 0.05
        finally:
            yard.offers.close()


async def test_a_message_that_is_lost_in_a_backlog_is_offered_again_once(redis_url: str, fleet_name: str) -> None:
    """Those before it were served, those behind it wait: it was lost, and only it is offered again."""
    async with aclosing(AsyncExecutor(redis_url)) as executor:
        yard = Yard(executor, redis_url, fleet_name)
        try:
            await yard.enqueue(20)
            await yard.lose("r0")
            await yard.work(5)
            await asyncio.sleep(3 * FIRST_LOOK_MS / 1000)
            await yard.sweeper.sweep_once()
            assert await yard.offered_again(20) == ["r0"]
        finally:
            yard.offers.close()


async def test_runs_on_a_queue_that_no_worker_reads_wait_without_a_second_message(
    redis_url: str, fleet_name: str
) -> None:
    """A sweep looks into a queue before it offers what is on it; what was lost there is offered again."""
    async with aclosing(AsyncExecutor(redis_url)) as executor:
        yard = Yard(executor, redis_url, fleet_name)
        yard.queue = f"nobody-{fleet_name}"
        try:
            await yard.enqueue(20)
            await yard.sweep_for(10 * FIRST_LOOK_MS / 1000)
            assert await yard.offered_again(20) == []
            await yard.lose("r0")
            async with asyncio.timeout(20):
                while not await yard.offered_again(20):
                    await yard.sweeper.sweep_once()
            assert await yard.offered_again(20) == ["r0"]
        finally:
            yard.offers.close()


async def test_while_the_broker_does_not_answer_nothing_is_offered_again(redis_url: str, fleet_name: str) -> None:
    """Whether a message waits there is not known: each offer of an outage would be a duplicate after it."""
    async with aclosing(AsyncExecutor(redis_url)) as executor:
        yard = Yard(executor, redis_url, fleet_name)
        try:
            await yard.enqueue(5)
            backlog = yard.offers._backlog
            yard.offers._backlog = Backlog(create_app(Registry(), f"redis://127.0.0.1:{free_port()}/0"))
            await yard.sweep_for(10 * FIRST_LOOK_MS / 1000)
            assert await yard.offered_again(5) == []
            yard.offers._backlog = backlog
            await yard.lose("r0")
            async with asyncio.timeout(20):
                while not await yard.offered_again(5):
                    await yard.sweeper.sweep_once()
            assert await yard.offered_again(5) == ["r0"]
        finally:
            yard.offers.close()
