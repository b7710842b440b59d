"""Build the heartbeats of the consumer protocol: all fields when joining, later only changed ones.

As Kafka's `ConsumerHeartbeatRequestManager.HeartbeatState`. What was last *sent* counts, so whenever an answer
may have been lost, `forget` has the next heartbeat say everything again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from groupsdk.assignment import Subscription
from groupsdk.assignment.subscriptions import decode_subscriptions, encode_subscription
from groupsdk.errors import DecodeError, MetadataError
from groupsdk.settings.config import ConsumerMemberConfig
from groupsdk.types import ProtocolMetadata
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions


@dataclass(frozen=True, slots=True)
class HeartbeatSubscription:
    """The topics that the next heartbeat names: by name, by a pattern for the broker, or both."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    """An RE2 expression that the broker matches against whole names; None: no pattern."""

    def protocols(self) -> list[ProtocolMetadata]:
        """Return the subscription as `metadata()` returns it: in classic encoding, and the pattern."""
        topics = encode_subscription(Subscription(topics=tuple(sorted(self.topics))))
        given = [ProtocolMetadata(PROTOCOL_NAME, topics)]
        if self.pattern is not None:
            given.append(ProtocolMetadata(PATTERN_NAME, self.pattern.encode()))
        return given

    @classmethod
    def of(cls, protocols: Sequence[ProtocolMetadata]) -> Self:
        """Parse the result of `metadata()`; MetadataError if there is no subscription under the name "consumer"."""
        given = dict(protocols)
        unknown = sorted(given.keys() - {PROTOCOL_NAME, PATTERN_NAME})
        if unknown or PROTOCOL_NAME not in given:
            raise MetadataError(
                "metadata() of a member of the consumer protocol must be"
                f" HeartbeatSubscription(...).protocols(), not protocols named {sorted(given)}"
            )
        try:
            read = decode_subscriptions({"": given[PROTOCOL_NAME]})[""]
            pattern = given[PATTERN_NAME].decode() if PATTERN_NAME in given else None
        except (DecodeError, UnicodeDecodeError) as error:
            raise MetadataError(f"metadata() holds no subscription: {error}") from error
        return cls(frozenset(read.topics), pattern)


JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_TO_COME_BACK_EPOCH: Final = -2
"""With it a static member keeps its partitions until its session ends."""

_NOT_SENT: Final = "\0"  # no topic has it in its name

PartitionsById = Mapping[UUID, frozenset[int]]
"""Topic id to partitions; a topic without any is not in it."""


@dataclass(frozen=True, slots=True)
class LocalAssignment:
    """A member's partitions, and the number of the assignment within its membership.

    The number tells two assignments of the same partitions apart, as Kafka's `LocalAssignment` does.
    """

    number: int
    """Counts the assignments of a membership; -1: none yet."""
    partitions: PartitionsById

    def followed_by(self, partitions: PartitionsById) -> "LocalAssignment":
        """Return the next assignment, or this one if the partitions are the same."""
        if self.number >= 0 and partitions == self.partitions:
            return self
        return LocalAssignment(self.number + 1, partitions)


NO_ASSIGNMENT: Final = LocalAssignment(-1, {})


class HeartbeatFields:
    """Remembers the fields that were last sent to the coordinator. The member makes its own id (KIP-1082)."""

    def __init__(self, config: ConsumerMemberConfig, member_id: str) -> None:
        self._config = config
        self._member_id = member_id
        self._topics: frozenset[str] | None = None
        self._pattern = _NOT_SENT
        self._has_pattern = False
        """Whether the coordinator may have a pattern of this member, of which it has to be told that it is over."""
        self.knows_owned = False
        """Whether the coordinator was told what the member owns, as far as is known."""
        self._constants = False
        """Whether the rebalance timeout and the assignor were sent: they never change."""

    def forget(self) -> None:
        """Send all fields with the next heartbeat, since it is unknown which have arrived."""
        self._topics = None
        self._pattern = _NOT_SENT
        self.knows_owned = False
        self._constants = False

    def end_pattern(self) -> None:
        """Tell the coordinator with the next heartbeat, once, that there is no pattern, though none was sent.

        A static member takes over what its place had subscribed to, and a field that is not sent means unchanged.
        """
        if not self._has_pattern:
            self._has_pattern = True
            self._pattern = _NOT_SENT

    def join(self, subscription: HeartbeatSubscription) -> ConsumerGroupHeartbeatRequest:
        """Build the heartbeat that joins the group, owning nothing."""
        self.forget()
        return self.heartbeat(JOIN_EPOCH, subscription, {}, rack=True)

    def heartbeat(
        self,
        epoch: int,
        subscription: HeartbeatSubscription,
        owned: PartitionsById | None,
        *,
        rack: bool = False,
    ) -> ConsumerGroupHeartbeatRequest:
        """Build a heartbeat with the fields that have changed.

        The coordinator takes all partitions that are not in `owned` for revoked; None: they are not sent.
        """
        config = self._config
        names = None
        if self._topics != subscription.topics:
            names = tuple(sorted(subscription.topics))
        wanted = subscription.pattern or ""
        pattern = None
        if self._pattern != wanted and (wanted or self._has_pattern):
            pattern = wanted
            self._has_pattern = True
        request = ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=config.group_instance_id,
            rack_id=config.rack_id if rack else None,
            rebalance_timeout_ms=-1 if self._constants else config.poll_interval_ms,
            subscribed_topic_names=names,
            subscribed_topic_regex=pattern,
            server_assignor=None if self._constants else config.server_assignor,
            topic_partitions=None if owned is None else in_wire_form(owned),
        )
        self._topics, self._pattern = subscription.topics, wanted
        self.knows_owned = self.knows_owned or owned is not None
        self._constants = True
        return request

    def leave(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """Build the heartbeat that leaves the group: epoch -1 for good, -2 for a static member that may return."""
        self.forget()
        return ConsumerGroupHeartbeatRequest(
            group_id=self._config.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._config.group_instance_id,
        )


def in_wire_form(partitions: PartitionsById) -> tuple[TopicPartitions, ...]:
    """Return partitions as heartbeats carry them: sorted, one element for each topic."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions[topic_id])))
        for topic_id in sorted(partitions)
    )


def of_wire_form(topics: tuple[TopicPartitions, ...]) -> dict[UUID, frozenset[int]]:
    """Return partitions by topic id; a topic that is named twice counts with all of its partitions."""
    read: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            read[topic.topic_id] = read.get(topic.topic_id, frozenset()) | frozenset(
                topic.partitions
            )
    return read


PROTOCOL_NAME: Final = "consumer"
"""The name of the one protocol in `metadata()`, and of every generation: `group.protocol=consumer`."""
PATTERN_NAME: Final = "pattern"
"""The name under which `metadata()` carries a pattern for the broker."""
