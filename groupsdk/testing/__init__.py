"""Test support: a real Apache Kafka, an assignor check, and the fixture `kafka_broker`.

Names are imported lazily, since pytest imports the package in every run for its fixture.
"""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes


if TYPE_CHECKING:
    from groupsdk.assignment.check import AssignorCheckError, check_assignor
    from groupsdk.testing.errors import (
        BrokerStartError,
        FetchError,
        LocalKafkaError,
        MissingToolError,
    )
    from groupsdk.testing.local_kafka import LocalKafka, prepare
    from groupsdk.testing.node import Node

_HOMES: Final = {
    "AssignorCheckError": "groupsdk.assignment.check",
    "BrokerStartError": "groupsdk.testing.errors",
    "FetchError": "groupsdk.testing.errors",
    "LocalKafka": "groupsdk.testing.local_kafka",
    "LocalKafkaError": "groupsdk.testing.errors",
    "MissingToolError": "groupsdk.testing.errors",
    "Node": "groupsdk.testing.node",
    "check_assignor": "groupsdk.assignment.check",
    "prepare": "groupsdk.testing.local_kafka",
}


__getattr__ = lazy_attributes(__name__, _HOMES)


__all__ = [
    "AssignorCheckError",
    "BrokerStartError",
    "FetchError",
    "LocalKafka",
    "LocalKafkaError",
    "MissingToolError",
    "Node",
    "check_assignor",
    "prepare",
]
