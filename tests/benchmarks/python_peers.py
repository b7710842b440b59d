"""The sticky assignors of kafka-python and aiokafka, ready to be called."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from groupsdk.assignment import GroupSubscription


def cluster_metadata(counts: Mapping[str, int]) -> SimpleNamespace:
    """Return what both ask of their cluster's metadata."""
    partitions = {topic: set(range(count)) for topic, count in counts.items()}
    return SimpleNamespace(partitions_for_topic=partitions.get, topics=lambda: set(partitions))


def kafka_python(counts: Mapping[str, int], members: GroupSubscription) -> Callable[[], Any]:
    """Return a call of kafka-python's assignor; the members have user data."""
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    joined = [
        SimpleNamespace(
            member_id=member_id,
            group_instance_id=None,
            metadata=ConsumerProtocolSubscription(0, list(each.topics), each.user_data or b""),
        )
        for member_id, each in members.items()
    ]
    metadata = cluster_metadata(counts)
    return lambda: StickyPartitionAssignor().assign(metadata, joined)


def aiokafka(counts: Mapping[str, int], members: GroupSubscription) -> Callable[[], Any]:
    """Return a call of aiokafka's assignor; the members have user data."""
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

    joined = {
        member_id: ConsumerProtocolMemberMetadata(0, list(each.topics), each.user_data or b"")
        for member_id, each in members.items()
    }
    metadata = cluster_metadata(counts)
    return lambda: StickyPartitionAssignor.assign(metadata, joined)
