"""The settings of the group coordinator, under Kafka's configuration names."""

from dataclasses import dataclass, fields

from groupsdk.errors import ConfigError
from groupsdk.limits import MAX_INT32


_LEAST = {
    "group_min_session_timeout_ms": 1,
    "group_max_session_timeout_ms": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_max_size": 1,
    "offset_metadata_max_bytes": 0,
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1,
    "new_member_join_timeout_ms": 1,
    "session_bucket_ms": 1,
    "max_record_bytes": 0,
    "gather_ms": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of a group coordinator; the defaults are Kafka's. Times are in milliseconds unless stated otherwise.

    Raises:
        ConfigError: a value is out of bounds, or the shortest session is longer than the longest.
    """

    group_min_session_timeout_ms: int = 6_000
    """The shortest session timeout that a member may request."""
    group_max_session_timeout_ms: int = 1_800_000
    """The longest session timeout that a member may request."""
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of an empty group waits for more members (KIP-134)."""
    group_max_size: int = MAX_INT32
    """The most members in a group."""
    offset_metadata_max_bytes: int = 4_096
    """The longest metadata of a committed offset; in UTF-16 code units, as Kafka counts them."""
    offsets_retention_minutes: int = 10_080
    """How long offsets are kept after their group's last member left, or after their commit (KIP-211); in
    minutes."""
    offsets_retention_check_interval_ms: int = 600_000
    """How often expired offsets and empty groups are removed."""
    new_member_join_timeout_ms: int = 300_000
    """How long the JoinGroup of a new member may be parked; a constant in Kafka."""
    session_bucket_ms: int = 10
    """Sessions that end within the same interval of this length are ended together, at its end."""
    max_record_bytes: int = MAX_INT32
    """The largest record of a group: the log's max.message.bytes."""
    gather_ms: int = 0
    """Without an initial delay: how long the first rebalance waits for member ids that were assigned but have
    not joined."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value, least = getattr(self, each.name), _LEAST[each.name]
            if not least <= value <= MAX_INT32:
                key = each.name.replace("_", ".")
                raise ConfigError(f"{key} must be from {least} to {MAX_INT32}, not {value}")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms} must not be greater"
                f" than group.max.session.timeout.ms={self.group_max_session_timeout_ms}"
            )

    @property
    def offsets_retention_ms(self) -> int:
        """The retention of offsets in milliseconds."""
        return self.offsets_retention_minutes * 60_000
