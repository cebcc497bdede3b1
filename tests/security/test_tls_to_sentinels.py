"""`rediss+sentinel://`: sentinels and servers over TLS, with passwords and clients' certificates; a failover, too."""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme
from cli.shared import command_for, told
from faults.sentinels import PASSWORD, SENTINEL_PASSWORD, SentinelPair
from faults.site import Site
from fleet.conftest import call, steps
from security.journey import PLAN, Journey
from support.certificates import Authority, authority_or_skip
from support.waiting import eventually

from turnfleet import Approve, AsyncFleet, Fleet, FleetUnavailable, RunInterrupt

pytestmark = pytest.mark.slow

SECRETS = (PASSWORD, SENTINEL_PASSWORD, quote(PASSWORD, safe=""), quote(SENTINEL_PASSWORD, safe=""))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give the authority that everybody here trusts."""
    return authority_or_skip(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Iterator[SentinelPair]:
    """Give servers and a sentinel that no test breaks."""
    with SentinelPair(authority) as pair:
        yield pair


def test_everything_that_connects(pair: SentinelPair, fleet_name: str) -> None:
    """Store, listener, worker, broker, doctor and Flower take the same URL, and show none of its passwords."""
    Journey(pair.url, fleet_name, secrets=SECRETS).works(flower=True)


def test_a_fleet_follows_its_master(authority: Authority, fleet_name: str) -> None:
    """The replica proves who it is as the master did: a run that waits goes on there, and new ones, effects once."""
    with SentinelPair(authority) as pair, Site(pair.url, fleet_name) as site:
        site.worker(concurrency=6)
        paid = site.enqueue(prompt=steps([call("pay")], "all done"), run_id="paid")
        assert list(paid.events(until="pause", timeout=60))[-1].kind == "approval"
        runs = [site.insist(f"r{number}") for number in range(4)]
        eventually(lambda: len(site.marks("nap:")) >= 2)
        pair.master.kill()
        eventually(pair.promoted, what="the replica is promoted")
        runs += [site.insist(f"later{number}") for number in range(2)]
        (waiting,) = eventually(lambda: _known(site), what="the interrupt at the new master")
        paid.resume({waiting.id: Approve()}, by="alice")
        assert paid.result(timeout=60).text == "all done"
        site.check(runs, timeout=90)


def _known(site: Site) -> Sequence[RunInterrupt]:
    try:
        return site.fleet.run("paid").interrupts()
    except FleetUnavailable:
        return ()


DISTRUST = "TLS certificate of the fleet's Redis"
REFUSAL = "is the login in its URL right"


def distrusted(pair: SentinelPair, authority: Authority, folder: Path) -> list[str]:
    """Spell out URLs whose servers cannot prove who they are: unknown authorities, and another host's name."""
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    mine = authority.url_options
    return [
        pair.secured(mine.replace(str(authority.ca), f"{folder}/other.pem")),
        pair.secured(mine.partition("&")[2]),
        pair.secured(mine, host="127.0.0.1"),
    ]


def test_who_cannot_prove_it_is_refused(
    pair: SentinelPair, authority: Authority, fleet_name: str, redis_url: str, tmp_path: Path
) -> None:
    """By both clients and as a broker: nothing is sent, the error says what it is about, and quotes no password."""
    for url in distrusted(pair, authority, tmp_path):
        _refused(url, fleet_name, DISTRUST)
        with pytest.raises(FleetUnavailable, match=DISTRUST):
            asyncio.run(_look(url, fleet_name))
        with Fleet(redis_url, name=fleet_name, broker_url=url, timeout=2) as fleet:
            with pytest.raises(FleetUnavailable) as unpublished:
                fleet.enqueue(PLAN, "please")
            assert unpublished.value.maybe_enqueued
        assert [secret for secret in SECRETS if secret in str(unpublished.value)] == []


def test_a_wrong_login_is_said_as_such(pair: SentinelPair, fleet_name: str) -> None:
    """Whether the sentinels refuse it or the servers."""
    _refused(pair.url.replace("sentinel_password=", "sentinel_password=x"), fleet_name, REFUSAL)
    _refused(pair.url.replace("//:", "//:x"), fleet_name, REFUSAL)


def _refused(url: str, name: str, said: str) -> None:
    with Fleet(url, name=name, timeout=2) as fleet, pytest.raises(FleetUnavailable, match=said) as refused:
        fleet.enqueue(PLAN, "please")
    assert [secret for secret in SECRETS if secret in str(refused.value)] == []


async def _look(url: str, name: str) -> None:
    async with AsyncFleet(url, name=name, timeout=2) as fleet:
        await fleet.workers()


def test_the_doctor_says_that_it_is_the_certificate(
    pair: SentinelPair, authority: Authority, fleet_name: str, tmp_path: Path
) -> None:
    """Not that the server is down, which is something else."""
    url = distrusted(pair, authority, tmp_path)[0]
    shown = command_for(url, fleet_name)("doctor", "--json")
    findings = {each["check"]: each for each in told(shown)["findings"]}
    assert ssl.SSLCertVerificationError.__name__ in findings["redis.reachable"]["seen"]
    assert "could not prove who it is" in findings["redis.reachable"]["seen"]
    assert "ssl_ca_certs" in findings["redis.reachable"]["advice"]
    assert [secret for secret in SECRETS if secret in shown.output] == []
