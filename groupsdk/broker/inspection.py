"""Show what is in a running broker: its groups."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from groupsdk.broker.groups.committed_offset import CommittedOffset
from groupsdk.broker.groups.shard import GroupCoordinatorShard
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.groups.views import GroupStatus, GroupView


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster
    from groupsdk.broker.consumer_groups.group import ConsumerGroup


def _shards(cluster: "Cluster") -> list[GroupCoordinatorShard]:
    return [
        runtime.shard
        for runtime in cluster.groups.running()
        if isinstance(runtime.shard, GroupCoordinatorShard)
    ]


def group_views(cluster: "Cluster") -> Mapping[str, GroupView]:
    """Show all groups as they are now, by group id."""
    found: dict[str, GroupView] = {}
    for shard in _shards(cluster):
        for group_id in shard.group_ids:
            view = shard.group(group_id)
            if view is not None:
                found[group_id] = view
    return MappingProxyType(found)


def consumer_group_view(cluster: "Cluster", group_id: str) -> "ConsumerGroup | None":
    """Show a consumer group (KIP-848) as it is now, a copy; None if there is none."""
    for shard in _shards(cluster):
        group = shard.consumer_group(group_id)
        if group is not None:
            made = group.copy()
            for member_id, target in made.targets.items():
                made.targets[member_id] = {each: tuple(sorted(target[each])) for each in target}
            return made
    return None


def committed_offsets(
    cluster: "Cluster", group_id: str
) -> Mapping[tuple[str, int], CommittedOffset]:
    """Show what a group has committed, by topic and partition."""
    for shard in _shards(cluster):
        offsets = shard.offsets(group_id)
        if offsets:
            return MappingProxyType(dict(offsets))
    return MappingProxyType({})


def group_statuses(cluster: "Cluster") -> Mapping[str, GroupStatus]:
    """Show how far all groups are, and whom they wait for, by group id."""
    found: dict[str, GroupStatus] = {}
    for shard in _shards(cluster):
        for group_id in shard.group_ids:
            status = shard.status(group_id)
            if status is not None:
                found[group_id] = status
    return MappingProxyType(found)


def group_metrics(cluster: "Cluster") -> Mapping[str, int]:
    """Count classic groups, those in each state and committed offsets, under the names of Kafka's GroupMetadataManager."""
    states = Counter(status.state for status in group_statuses(cluster).values())
    found = {"NumGroups": states.total(), "NumOffsets": 0}
    found |= {f"NumGroups{state.value}": states[state] for state in GroupState}
    found["NumOffsets"] = sum(shard.offset_count for shard in _shards(cluster))
    return MappingProxyType(found)
