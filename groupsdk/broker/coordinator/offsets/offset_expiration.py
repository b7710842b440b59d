"""Expire unused offsets (KIP-211), and remove groups without members and offsets."""

import logging
from typing import Final

from groupsdk.broker.coordinator.classic.group import ClassicGroup, group_tombstone
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.consumer.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.records import group_tombstones
from groupsdk.broker.coordinator.group.records import NO_TIMESTAMP, CommittedOffset, OffsetTombstone
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import OffsetStore
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode


logger = logging.getLogger(__name__)

MAX_TOMBSTONES: Final = 2_000
"""The most tombstones in one batch; the next batches follow immediately."""
_MAX_CHECKED: Final = 5_000
"""How many offsets are looked at before other requests have their turn, of whole groups."""


class OffsetExpiration:
    """Checks all groups every offsets.retention.check.interval.ms (Kafka: GroupCoordinatorShard.cleanupExpiredOffsets)."""

    __slots__ = ("_consumer_groups", "_offsets", "_registry", "_to_check", "next_ms")

    def __init__(
        self,
        registry: GroupRegistry,
        offsets: OffsetStore,
        consumer_groups: ConsumerGroupCoordinator,
    ) -> None:
        """Create it stopped; `start` starts it."""
        self._registry = registry
        self._consumer_groups = consumer_groups
        self._offsets = offsets
        self.next_ms: int | None = None
        """When there is something to look through; None before the start."""
        self._to_check: list[str] = []

    def start(self, now_ms: int) -> None:
        """Schedule the next check after one interval."""
        self.next_ms = now_ms + self._registry.config.offsets_retention_check_interval_ms

    def stop(self) -> None:
        """Stop checking, and drop the check in progress."""
        self.next_ms = None
        self._to_check = []

    def advance(self, builder: ResultBuilder) -> None:
        """Write tombstones for expired offsets and groups if a check is due, at most about 2,000 per call.

        Sets `next_ms` when the check is finished; until then it stays due. If the append fails, the check is given up
        until the next interval."""
        if self.next_ms is None or builder.now_ms < self.next_ms:
            return
        if not self._to_check:
            self._to_check = [*self._registry.groups, *self._consumer_groups.registry.groups]
        checked = 0
        while self._to_check and len(builder.records) < MAX_TOMBSTONES and checked < _MAX_CHECKED:
            group_id = self._to_check.pop()
            checked += 1 + self._offsets.count(group_id)
            group = self._registry.groups.get(group_id)
            consumer_group = self._consumer_groups.group(group_id)
            if consumer_group is not None:
                done = self._expire_consumer_group(consumer_group, builder)
            else:
                done = group is None or self._expire(group, builder)
            if not done:
                self._to_check.append(group_id)
        if not self._to_check:
            self.start(builder.now_ms)
        if builder.records:
            builder.if_failed(self._put_off)

    def _put_off(self, builder: ResultBuilder, error: ErrorCode) -> None:
        # not retried at once: a full disk stays full for a while
        logger.warning("removing expired offsets failed: %s", error.name)
        self._to_check = []
        self.start(builder.now_ms)

    def _expire(self, group: ClassicGroup, builder: ResultBuilder) -> bool:
        """Write a group's tombstones; False if there are more to write."""
        group_id, offsets = group.group_id, self._offsets
        kept, expired = False, 0
        for topic, partitions in offsets.topics(group_id).items():
            if group.is_subscribed_to(topic):
                kept = True
                continue
            for partition, stored in partitions.items():
                if not self._is_expired(group, stored, builder.now_ms) or offsets.is_unstable(
                    group_id, topic, partition
                ):
                    kept = True
                elif len(builder.records) >= MAX_TOMBSTONES:
                    return False
                else:
                    expired += 1
                    self._registry.counters.offset_expirations += 1
                    builder.write(OffsetTombstone(group_id, topic, partition))
        if expired:
            logger.info("group=%s: %d offsets expired", group_id, expired)
        if (
            not kept
            and group.state is GroupState.EMPTY
            and not group.pending_joins
            and not offsets.has_open_transactions(group_id)
        ):
            builder.write(group_tombstone(group_id))
            logger.info("group=%s: removed: no members and no offsets left", group_id)
        return True

    def _expire_consumer_group(self, group: ConsumerGroup, builder: ResultBuilder) -> bool:
        """Write a consumer group's tombstones; False if there are more to write.

        Offsets of topics without subscribers expire from the time of their commit, whether or not the group has members.
        """
        group_id, offsets = group.group_id, self._offsets
        subscribed = group.subscribed_topics()
        retention_ms = self._registry.config.offsets_retention_ms
        kept = False
        for topic, partitions in offsets.topics(group_id).items():
            if topic in subscribed:
                kept = True
                continue
            for partition, stored in partitions.items():
                age_ms = builder.now_ms - stored.commit_timestamp_ms
                if age_ms < retention_ms or offsets.is_unstable(group_id, topic, partition):
                    kept = True
                elif len(builder.records) >= MAX_TOMBSTONES:
                    return False
                else:
                    self._registry.counters.offset_expirations += 1
                    builder.write(OffsetTombstone(group_id, topic, partition))
        if not (kept or group.members or offsets.has_open_transactions(group_id)):
            builder.write_all(group_tombstones(group))
            logger.info("group=%s: removed: no members and no offsets left", group_id)
        return True

    def _is_expired(self, group: ClassicGroup, stored: CommittedOffset, now_ms: int) -> bool:
        since_ms = _unused_since_ms(group, stored)
        if since_ms is None:
            return False
        if stored.expire_timestamp_ms != NO_TIMESTAMP:
            return now_ms >= stored.expire_timestamp_ms
        return now_ms - since_ms >= self._registry.config.offsets_retention_ms


def _unused_since_ms(group: ClassicGroup, stored: CommittedOffset) -> int | None:
    """Return since when an offset is unused; None if it is in use."""
    if group.protocol_type is None:
        return stored.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        known = group.state_timestamp_ms != NO_TIMESTAMP
        return group.state_timestamp_ms if known else stored.commit_timestamp_ms
    knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
    if knows_topics and group.state is GroupState.STABLE:
        return stored.commit_timestamp_ms
    return None
