"""Name the settings of a consumer, so that editors complete them and type checkers know them.

Made from the code by `python -m docs.list_settings`, like the tables in docs/configuration.md. Only type
checkers import it.
"""

from collections.abc import Sequence
from typing import Literal

from groupsdk.assignment import AssignorLike
from groupsdk.settings.keywords import MemberSettings


class ConsumerSettings(MemberSettings, total=False):
    """A consumer's settings as keywords; those of librdkafka are taken as well."""

    partition_assignment_strategy: AssignorLike | Sequence[AssignorLike]
    """The assignors, by preference: names, places ("package.module:Class"), classes or
    assignors."""
    group_protocol: Literal["classic", "consumer", "auto"]
    """The group protocol: "classic"; "consumer" for KIP-848, where the broker assigns and
    partitions move one by one; or "auto" for the latter if broker and group support it and
    partition.assignment.strategy names no assignor but Kafka's."""
    group_protocol_type: str
    """The type of the group in the classic protocol, as in "work". A group of a type of its own
    takes in no member of type "consumer" and none of KIP-848 while it has members, so the
    clients' assignors stay in charge."""
    group_remote_assignor: str | None
    """Which of the broker's assignors to vote for, with the consumer protocol; None: the broker's
    choice."""
    auto_offset_reset: str
    """Where to begin without a committed offset: "earliest", "latest", "none" for an error, or so
    far back from now: "by_duration:PT6M" (KIP-1106)."""
    enable_auto_commit: bool
    """Whether positions are committed periodically, before partitions are revoked, and at the
    end."""
    auto_commit_interval_ms: int
    """How often positions are committed in the background."""
    enable_auto_offset_store: bool
    """Whether the records that `poll` and `consume` returned count as processed at the next call;
    otherwise `store_offsets` marks them."""
    client_rack: str | None
    """The consumer's rack, for assignors and brokers that use racks (KIP-881, KIP-392)."""
    metadata_max_age_ms: int
    """How often to check whether the group's topics have changed."""
    exclude_internal_topics: bool
    """Whether patterns skip Kafka's internal topics."""
    allow_auto_create_topics: bool
    """Whether fetching a topic's metadata may create it, if the brokers allow that."""
    default_api_timeout_ms: int
    """How long a call without a timeout of its own may take."""
