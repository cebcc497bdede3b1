"""A worker's metrics as Prometheus would read them."""

from collections.abc import Mapping
from urllib.request import urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


class Scrape:
    """One scrape. `scrape["name", "label=value", ...]` is a sample's value, 0 where there is none (yet)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: list[Metric] = list(text_string_to_metric_families(text))
        self.samples: Mapping[tuple[str, ...], float] = {
            (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        """Give a sample's value; labels in any order."""
        name, *labels = (key,) if isinstance(key, str) else key
        return self.samples.get((name, *sorted(labels)), 0)

    def grown_since(self, before: "Scrape", *names: str) -> dict[tuple[str, ...], float]:
        """Give by how much the samples of these names grew, without those that did not."""
        return {
            key: value - before.samples.get(key, 0)
            for key, value in self.samples.items()
            if key[0] in names and value != before.samples.get(key, 0)
        }


def scrape(where: str) -> Scrape:
    """Scrape `address:port`."""
    with urlopen(f"http://{where}/metrics", timeout=60) as answer:
        return Scrape(answer.read().decode())
