"""The settings of a member of the consumer protocol: `ConsumerMemberConfig`."""

from typing import Any, Final

from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.settings.config import MemberConfig


DEFAULT_INTERVAL_MS: Final = 5_000
"""The broker's default of `group.consumer.heartbeat.interval.ms`: used until the first response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberConfig(MemberConfig):
    """The settings of one member of the consumer protocol (KIP-848).

    How long a session lasts and how often to heartbeat is up to the broker: `session_timeout_ms` and
    `heartbeat_interval_ms` only stand in until it has told. The rebalance timeout is max.poll.interval.ms.
    """

    heartbeat_interval_ms: int = DEFAULT_INTERVAL_MS
    server_assignor: str | None = None
    """Which of the broker's assignors to vote for (`group.remote.assignor`); None: the broker's choice."""
    rack_id: str | None = None
    """Where the member runs (`client.rack`), for assignors of the broker that heed it."""

    @override
    def __post_init__(self) -> None:
        # not super(): the class that a dataclass with slots makes is another one than this
        MemberConfig.__post_init__(self)
        given: tuple[tuple[str, Any], ...] = (
            ("group.remote.assignor", self.server_assignor),
            ("client.rack", self.rack_id),
        )
        for key, value in given:
            if value is None:
                continue
            if not isinstance(value, str) or not value or len(value.encode()) > MAX_STRING_BYTES:
                raise ConfigError(
                    f"{key} must be a string of 1 to {MAX_STRING_BYTES} bytes, not {value!r}; leave it out for none"
                )
