"""Start a real Apache Kafka for tests and demonstrations; check assignors."""

from groupsdk.assignor_check import AssignorCheckError, check_assignor
from groupsdk.testing.errors import (
    BrokerStartError,
    FetchError,
    LocalKafkaError,
    MissingToolError,
)
from groupsdk.testing.local_kafka import LocalKafka, prepare
from groupsdk.testing.node import Node


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
