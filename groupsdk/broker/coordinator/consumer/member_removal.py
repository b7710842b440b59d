"""Remove members of a consumer group: on request or on timeout."""

from collections.abc import Collection, Iterator

from groupsdk.broker.coordinator.consumer.conversion import GroupConversion
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.group_updater import GroupUpdater
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember
from groupsdk.broker.coordinator.consumer.records import (
    group_epoch,
    member_tombstones,
    target_epoch,
)
from groupsdk.broker.coordinator.consumer.registry import ConsumerGroupRegistry, Draft
from groupsdk.broker.coordinator.consumer.topics import metadata_hash
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder


class MemberRemoval:
    """Removes members, and downgrades a group to a classic one once only classic members are left."""

    __slots__ = ("_conversion", "_registry", "_updater")

    def __init__(
        self, registry: ConsumerGroupRegistry, updater: GroupUpdater, conversion: GroupConversion
    ) -> None:
        self._registry = registry
        self._updater = updater
        self._conversion = conversion

    def remove(
        self, group: ConsumerGroup, leaving: Collection[ConsumerGroupMember], builder: ResultBuilder
    ) -> None:
        """Write the removal of members, raising the group epoch once, or the downgrade of the group."""
        gone = {each.member_id for each in leaving}
        if self._conversion.would_downgrade(_without(group, gone)):
            self._conversion.downgrade(
                group, list(_without(group, gone)), builder, generation=group.epoch, rebalance=True
            )
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


def _without(group: ConsumerGroup, gone: Collection[str]) -> Iterator[ConsumerGroupMember]:
    return (each for each in group.members.values() if each.member_id not in gone)
