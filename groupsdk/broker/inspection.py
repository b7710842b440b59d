"""Show what is in a running broker: its groups."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from groupsdk.broker.groups.committed_offset import CommittedOffset
from groupsdk.broker.groups.shard import GroupCoordinatorShard
from groupsdk.broker.groups.views import GroupView


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster


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


def committed_offsets(
    cluster: "Cluster", group_id: str
) -> Mapping[tuple[str, int], CommittedOffset]:
    """Show what a group has committed, by topic and partition."""
    for shard in _shards(cluster):
        offsets = shard.offsets(group_id)
        if offsets:
            return MappingProxyType(dict(offsets))
    return MappingProxyType({})
