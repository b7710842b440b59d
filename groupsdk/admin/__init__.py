"""Administer the groups of a cluster: list, describe and change them without joining."""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes


if TYPE_CHECKING:
    from groupsdk.admin.cluster import (
        EARLIEST,
        LATEST,
        Broker,
        ClusterClient,
        ClusterMetadata,
        Partition,
        Topic,
    )
    from groupsdk.admin.coordinator_log import (
        EntryKind,
        LogEntry,
        read_archive_files,
        read_segment_files,
    )
    from groupsdk.admin.descriptions import (
        Assignment,
        CommittedOffset,
        GroupDescription,
        GroupListing,
        GroupType,
        Member,
        PartitionLag,
        Subscription,
    )
    from groupsdk.admin.groups import (
        commit_offsets,
        committed_offsets,
        delete_group,
        delete_offsets,
        describe_group,
        end_offsets,
        group_lag,
        list_groups,
        remove_members,
    )
    from groupsdk.admin.offset_reset import (
        Reset,
        Scenario,
        Target,
        parse_datetime,
        parse_duration,
        plan_reset,
    )
    from groupsdk.admin.watching import Cause, ClusterView, Rebalance, WatchedGroup, watch_cluster

_HOMES: Final = {
    "Assignment": "groupsdk.admin.descriptions",
    "Broker": "groupsdk.admin.cluster",
    "Cause": "groupsdk.admin.watching",
    "ClusterClient": "groupsdk.admin.cluster",
    "ClusterMetadata": "groupsdk.admin.cluster",
    "ClusterView": "groupsdk.admin.watching",
    "CommittedOffset": "groupsdk.admin.descriptions",
    "EARLIEST": "groupsdk.admin.cluster",
    "EntryKind": "groupsdk.admin.coordinator_log",
    "GroupDescription": "groupsdk.admin.descriptions",
    "GroupListing": "groupsdk.admin.descriptions",
    "GroupType": "groupsdk.admin.descriptions",
    "LATEST": "groupsdk.admin.cluster",
    "LogEntry": "groupsdk.admin.coordinator_log",
    "Member": "groupsdk.admin.descriptions",
    "Partition": "groupsdk.admin.cluster",
    "PartitionLag": "groupsdk.admin.descriptions",
    "Rebalance": "groupsdk.admin.watching",
    "Reset": "groupsdk.admin.offset_reset",
    "Scenario": "groupsdk.admin.offset_reset",
    "Subscription": "groupsdk.admin.descriptions",
    "Target": "groupsdk.admin.offset_reset",
    "Topic": "groupsdk.admin.cluster",
    "WatchedGroup": "groupsdk.admin.watching",
    "commit_offsets": "groupsdk.admin.groups",
    "committed_offsets": "groupsdk.admin.groups",
    "delete_group": "groupsdk.admin.groups",
    "delete_offsets": "groupsdk.admin.groups",
    "describe_group": "groupsdk.admin.groups",
    "end_offsets": "groupsdk.admin.groups",
    "group_lag": "groupsdk.admin.groups",
    "list_groups": "groupsdk.admin.groups",
    "parse_datetime": "groupsdk.admin.offset_reset",
    "parse_duration": "groupsdk.admin.offset_reset",
    "plan_reset": "groupsdk.admin.offset_reset",
    "read_archive_files": "groupsdk.admin.coordinator_log",
    "read_segment_files": "groupsdk.admin.coordinator_log",
    "remove_members": "groupsdk.admin.groups",
    "watch_cluster": "groupsdk.admin.watching",
}

__getattr__ = lazy_attributes(__name__, _HOMES)

__all__ = [
    "Assignment",
    "Broker",
    "Cause",
    "ClusterClient",
    "ClusterMetadata",
    "ClusterView",
    "CommittedOffset",
    "EARLIEST",
    "EntryKind",
    "GroupDescription",
    "GroupListing",
    "GroupType",
    "LATEST",
    "LogEntry",
    "Member",
    "Partition",
    "PartitionLag",
    "Rebalance",
    "Reset",
    "Scenario",
    "Subscription",
    "Target",
    "Topic",
    "WatchedGroup",
    "commit_offsets",
    "committed_offsets",
    "delete_group",
    "delete_offsets",
    "describe_group",
    "end_offsets",
    "group_lag",
    "list_groups",
    "parse_datetime",
    "parse_duration",
    "plan_reset",
    "read_archive_files",
    "read_segment_files",
    "remove_members",
    "watch_cluster",
]
