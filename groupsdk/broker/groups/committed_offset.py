"""Hold what is stored for one partition of a topic."""

from typing import Final, NamedTuple


NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1


class CommittedOffset(NamedTuple):
    """A committed offset (Kafka: OffsetAndMetadata)."""

    offset: int
    leader_epoch: int = NO_EPOCH
    """-1: none."""
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    """-1: by the broker's retention; only commits of version 2 to 4 could name a time."""
