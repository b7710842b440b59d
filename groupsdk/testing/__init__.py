"""Start a real Apache Kafka for tests and demonstrations."""

from groupsdk.testing.errors import (
    BrokerStartError,
    FetchError,
    LocalKafkaError,
    MissingToolError,
)
from groupsdk.testing.local_kafka import LocalKafka, prepare
from groupsdk.testing.node import Node


__all__ = [
    "BrokerStartError",
    "FetchError",
    "LocalKafka",
    "LocalKafkaError",
    "MissingToolError",
    "Node",
    "prepare",
]
