"""An embedded Kafka broker: group and transaction coordinators, their logs, and topics for any Kafka client."""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes


if TYPE_CHECKING:
    from groupsdk.broker.coordinator.consumer.assignors import GroupSpec, MemberSpec, ServerAssignor
    from groupsdk.broker.coordinator.consumer.topics import Partitions, TopicInfo
    from groupsdk.broker.embedded import EmbeddedBroker, EmbeddedBrokerError
    from groupsdk.broker.server.faults import Faults
    from groupsdk.broker.server.sasl_servers import TokenUser

_HOMES: Final = {
    "EmbeddedBroker": "groupsdk.broker.embedded",
    "EmbeddedBrokerError": "groupsdk.broker.embedded",
    "Faults": "groupsdk.broker.server.faults",
    "GroupSpec": "groupsdk.broker.coordinator.consumer.assignors",
    "MemberSpec": "groupsdk.broker.coordinator.consumer.assignors",
    "Partitions": "groupsdk.broker.coordinator.consumer.topics",
    "ServerAssignor": "groupsdk.broker.coordinator.consumer.assignors",
    "TokenUser": "groupsdk.broker.server.sasl_servers",
    "TopicInfo": "groupsdk.broker.coordinator.consumer.topics",
}

__getattr__ = lazy_attributes(__name__, _HOMES)

__all__ = [
    "EmbeddedBroker",
    "EmbeddedBrokerError",
    "Faults",
    "GroupSpec",
    "MemberSpec",
    "Partitions",
    "ServerAssignor",
    "TokenUser",
    "TopicInfo",
]
