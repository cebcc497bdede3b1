"""What a client was set up with: one frozen value that its flows read."""

from dataclasses import dataclass, field

from turnfleet.client.capabilities import Capabilities
from turnfleet.store.keys import Keys
from turnfleet.wire import SigningKeys, SizeLimits


@dataclass(frozen=True, slots=True)
class Setup:
    """A client's settings. Times in seconds, `retention_ms` in milliseconds."""

    keys: Keys
    limits: SizeLimits
    poll_interval: float
    reconnect_timeout: float
    retention_ms: int
    signing: SigningKeys | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)

    def __post_init__(self) -> None:
        """Refuse times that would turn waiting into spinning, or forget runs at once."""
        if self.poll_interval <= 0 or self.retention_ms <= 0:
            raise ValueError("poll_interval and retention_seconds must be more than 0")
        if not self.reconnect_timeout >= 0:
            raise ValueError("reconnect_timeout must be 0 or more")

    @property
    def fleet(self) -> str:
        """The fleet's name."""
        return self.keys.fleet
