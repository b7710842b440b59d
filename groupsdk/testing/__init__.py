"""What tests need: a real Apache Kafka, a check of assignors, the fixture `kafka_broker`.

The names are imported when they are first used: pytest imports the package in every run, for its fixture.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from groupsdk.assignor_check import AssignorCheckError, check_assignor
    from groupsdk.testing.errors import (
        BrokerStartError,
        FetchError,
        LocalKafkaError,
        MissingToolError,
    )
    from groupsdk.testing.local_kafka import LocalKafka, prepare
    from groupsdk.testing.node import Node

_HOMES: Final = {
    "AssignorCheckError": "groupsdk.assignor_check",
    "BrokerStartError": "groupsdk.testing.errors",
    "FetchError": "groupsdk.testing.errors",
    "LocalKafka": "groupsdk.testing.local_kafka",
    "LocalKafkaError": "groupsdk.testing.errors",
    "MissingToolError": "groupsdk.testing.errors",
    "Node": "groupsdk.testing.node",
    "check_assignor": "groupsdk.assignor_check",
    "prepare": "groupsdk.testing.local_kafka",
}


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    found = globals()[name] = getattr(import_module(home), name)
    return found


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
