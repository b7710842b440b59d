"""Remove members of a consumer group: on request or on timeout."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from groupsdk.broker.classic_groups.group import group_metadata
from groupsdk.broker.consumer_groups.conversion import downgrade_records
from groupsdk.broker.consumer_groups.group import ConsumerGroup
from groupsdk.broker.consumer_groups.group_updater import GroupUpdater
from groupsdk.broker.consumer_groups.member import ConsumerGroupMember
from groupsdk.broker.consumer_groups.records import (
    group_epoch,
    group_tombstones,
    member_tombstones,
    target_epoch,
)
from groupsdk.broker.consumer_groups.registry import ConsumerGroupRegistry, Draft
from groupsdk.broker.consumer_groups.topics import metadata_hash
from groupsdk.broker.runtime.result_builder import ResultBuilder


logger = logging.getLogger(__name__)

BecameClassic = Callable[[str, bool, ResultBuilder], None]
"""Starts serving a downgraded group: its id, whether it must rebalance, and the builder of the result."""


class MemberRemoval:
    """Removes members, and downgrades a group to a classic one once only classic members are left.

    Args:
        registry: the groups and their timers.
        updater: provides the topics and the settings.
        became_classic: starts serving a downgraded group.
    """

    __slots__ = ("_became_classic", "_registry", "_updater")

    def __init__(
        self, registry: ConsumerGroupRegistry, updater: GroupUpdater, became_classic: BecameClassic
    ) -> None:
        self._registry = registry
        self._updater = updater
        self._became_classic = became_classic

    def remove(
        self, group: ConsumerGroup, leaving: Collection[ConsumerGroupMember], builder: ResultBuilder
    ) -> None:
        """Write the removal of members, raising the group epoch once, or the downgrade of the group.

        Args:
            group: the group with all its members.
            leaving: the members to remove.
            builder: receives the records.
        """
        gone = {each.member_id for each in leaving}
        if self.would_downgrade(_without(group, gone)):
            self.downgrade(group, list(_without(group, gone)), builder, rebalance=True)
            return
        draft = Draft(group)
        for member in leaving:
            for record in member_tombstones(group.group_id, member.member_id):
                draft.write(record)
        self._updater.drop_unused_regexes(draft)
        image = self._updater.image()
        hashed = metadata_hash(draft.group.subscribed_topics(), image)
        draft.write(group_epoch(group.group_id, group.epoch + 1, hashed))
        if not draft.group.members and self._updater.settings.config().follows_4_4:
            draft.write(target_epoch(group.group_id, group.epoch + 1, 0))
        draft.hand_over(self._registry, builder)

    def would_downgrade(self, rest: Iterable[ConsumerGroupMember]) -> bool:
        """Return whether a group with only these members must become a classic one, by the migration policy and size."""
        config = self._updater.settings.config()
        size = 0
        for each in rest:
            if each.classic is None:
                return False
            size += 1
        return 0 < size <= config.group_max_size and config.policy.downgrades

    def downgrade(
        self,
        group: ConsumerGroup,
        rest: Collection[ConsumerGroupMember],
        builder: ResultBuilder,
        *,
        rebalance: bool,
    ) -> None:
        """Write a consumer group as the classic group of its remaining members.

        Args:
            group: the group with all its members, those being removed included, and any drafted changes.
            rest: the classic members that stay.
            builder: receives the records.
            rebalance: whether the classic group must rebalance at once.
        """
        self._registry.write(group_tombstones(group), builder)
        value = downgrade_records(group, rest, self._updater.image(), builder.now_ms)
        builder.write(group_metadata(group.group_id, value))
        builder.when_written(partial(self._became_classic, group.group_id, rebalance))
        logger.info(
            "group=%s epoch=%d: becomes a classic group of %d members",
            group.group_id,
            group.epoch,
            len(rest),
        )


def _without(group: ConsumerGroup, gone: Collection[str]) -> Iterator[ConsumerGroupMember]:
    return (each for each in group.members.values() if each.member_id not in gone)
