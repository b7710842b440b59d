"""The assignment of partitions: the contract of assignors, their plans, and the check that any assignor can take."""

from groupsdk.assignment.contract import (
    PARTS,
    Assignment,
    AssignorLike,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    Lags,
    MemberReport,
    PartitionAssignor,
    Partitions,
    RebalanceProtocol,
    Subscription,
    TopicPartition,
    is_assignor,
    missing_parts,
    reads_reports,
    resolve_assignor,
)


__all__ = [
    "PARTS",
    "Assignment",
    "AssignorLike",
    "Cluster",
    "GroupAssignment",
    "GroupSubscription",
    "Lags",
    "MemberReport",
    "PartitionAssignor",
    "Partitions",
    "RebalanceProtocol",
    "Subscription",
    "TopicPartition",
    "is_assignor",
    "missing_parts",
    "reads_reports",
    "resolve_assignor",
]
