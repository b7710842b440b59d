"""Inspect the groups of a running broker."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from groupsdk.broker.coordinator.classic.views import GroupView
from groupsdk.broker.coordinator.consumer.views import ConsumerGroupView
from groupsdk.broker.coordinator.counters import CoordinatorCounters
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.group_status import ConsumerGroupState, GroupState, GroupStatus


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster


def _shards(cluster: "Cluster") -> list[GroupCoordinatorShard]:
    return [
        runtime.shard
        for runtime in cluster.groups.running()
        if isinstance(runtime.shard, GroupCoordinatorShard)
    ]


def group_views(cluster: "Cluster") -> Mapping[str, GroupView | ConsumerGroupView]:
    """Return snapshots of all groups of a cluster by group id; groups of coordinators that are not ready are missing."""
    found: dict[str, GroupView | ConsumerGroupView] = {}
    for shard in _shards(cluster):
        for group_id in shard.group_ids:
            view = shard.group(group_id) or shard.consumer_view(group_id)
            if view is not None:
                found[group_id] = view
    return MappingProxyType(found)


def group_statuses(cluster: "Cluster") -> Mapping[str, GroupStatus]:
    found: dict[str, GroupStatus] = {}
    for shard in _shards(cluster):
        for group_id in shard.group_ids:
            status = shard.status(group_id)
            if status is not None:
                found[group_id] = status
    return MappingProxyType(found)


def group_metrics(cluster: "Cluster") -> Mapping[str, int]:
    """Return the number of groups, of groups in each state, of committed offsets and of events, under Kafka's names.

    Classic groups have the names of GroupMetadataManager, consumer groups those of group-coordinator-metrics, with the
    state after a comma. Events have those of the latter's totals, counted since each coordinator was loaded. Kafka has no
    name for the members of all groups: `NumMembers`.
    """
    states = Counter(status.state for status in group_statuses(cluster).values())
    found = {"NumGroups": sum(states[state] for state in GroupState), "NumOffsets": 0}
    found |= {f"NumGroups{state.value}": states[state] for state in GroupState}
    found["NumOffsets"] = sum(shard.offset_count for shard in _shards(cluster))
    found |= {
        f"consumer-group-count,state={state.value.lower()}": states[state]
        for state in ConsumerGroupState
    }
    shards = _shards(cluster)
    found["NumMembers"] = sum(shard.member_count for shard in shards)
    totals = Counter(CoordinatorCounters().by_name())
    for shard in shards:
        totals.update(shard.counters.by_name())
    found |= totals
    return MappingProxyType(found)
