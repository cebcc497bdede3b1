"""The monitoring page: its programs run, its rules ask for what there is, and its table leaves nothing out."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from support.pages import ROOT, Shop
from support.ports import free_port
from support.scraping import Scrape, scrape
from support.waiting import eventually

PAGE = ROOT / "docs/how-to/monitoring.md"
METRIC = re.compile(r"turnfleet_[a-z_]+[a-z]")


@contextmanager
def fleet_of_the_page(folder: Path, redis_url: str) -> Iterator[tuple[Shop, str]]:
    """Run the page's worker and Flower; give the page, and where the worker is to be scraped."""
    flower, metrics = free_port(), free_port()
    addresses = {"5555": str(flower), "9464": str(metrics)}
    with Shop("docs/how-to/monitoring.md", folder, redis_url=redis_url, addresses=addresses) as shop:
        shop.write("myfleet.py", "prometheus.yml", "alerts.yml")
        with shop.running("flower"):
            # Flower forgets nothing of what it heard, and hears nothing of what was before it.
            eventually(lambda: refuses(flower), what="Flower asks for its password")
            with shop.running("worker"):
                eventually(lambda: serves(metrics), what="the worker's metrics")
                yield shop, f"127.0.0.1:{metrics}"


def serves(port: int) -> bool:
    """Say whether a worker answers with its metrics."""
    try:
        return bool(scrape(f"127.0.0.1:{port}").families)
    except OSError:
        return False


def refuses(port: int) -> bool:
    """Say whether Flower is there and lets nobody in without a password."""
    try:
        urlopen(f"http://127.0.0.1:{port}/api/tasks", timeout=60).close()
    except HTTPError as error:
        error.close()
        return error.code == 401
    except OSError:
        return False
    return False


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path: Path, own_redis_url: str) -> None:
    """Two runs are found in Flower and counted by the worker; the rules and the table name what it serves."""
    with fleet_of_the_page(tmp_path, own_redis_url) as (shop, where):
        done = shop.python("enqueue.py")
        assert "Your money is on its way." in done
        assert "the provider does not answer" in done
        eventually(lambda: found(shop), what="the page's output of find.py")
        shop.python("where.py")
        shop.python("scrape.py")
        # The worker that sweeps tells of the fleet, a moment after its start.
        eventually(lambda: "turnfleet_runs_overdue" in scrape(where).text)
        seen = scrape(where)
        (job,) = yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"]
        assert job["static_configs"] == [{"targets": [where]}]
        check_rules(tmp_path / "alerts.yml", seen)
        check_table(seen)


def found(shop: Shop) -> bool:
    """Say whether Flower shows by now what the page shows."""
    try:
        shop.python("find.py")
    except AssertionError:
        return False
    return True


def check_rules(rules: Path, seen: Scrape) -> None:
    """Assert that each rule asks for series that a worker has: a misspelled one would never fire."""
    (group,) = yaml.safe_load(rules.read_text())["groups"]
    series = {name for family in seen.families for name in series_of(family.name, family.type)}
    for rule in group["rules"]:
        asked = set(METRIC.findall(rule["expr"]))
        assert asked, rule
        assert asked <= series, rule
        assert rule["annotations"]["summary"].endswith("."), rule


def series_of(family: str, kind: str) -> tuple[str, ...]:
    """Name the series of a metric."""
    match kind:
        case "counter":
            return (f"{family}_total",)
        case "histogram":
            return (f"{family}_bucket", f"{family}_count", f"{family}_sum")
        case _:
            return (family,)


def check_table(seen: Scrape) -> None:
    """Assert that the page's table has every metric of a worker, with its labels, and no other."""
    rows = re.findall(r"^\| `(turnfleet_\w+)(?:\{([a-z, ]+)\})?` \|", PAGE.read_text(), re.MULTILINE)
    listed = {name: set(labels.split(", ")) if labels else set() for name, labels in rows}
    own = [family for family in seen.families if family.name.startswith("turnfleet_")]
    served = {f"{family.name}_total" if family.type == "counter" else family.name: family for family in own}
    assert sorted(listed) == sorted(served)
    for name, family in served.items():
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        # A metric that nothing was counted in yet has no samples, and so no labels to see.
        assert labels in (listed[name], set()), name
