"""Use each part of an installed groupsdk once; run by `make versions` under every Python of the machine.

It stands alone: the virtual environment that runs it has the wheel and what that depends on, and no pytest.
"""

import importlib
import json
import pkgutil
from collections.abc import Mapping

from confluent_kafka import Producer
from typing_extensions import override

import assignors
import groupsdk
from assignors import assign_range, check_assignor, known_assignors, resolve
from groupsdk import AbstractCoordinator
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer


_OPTIONAL = {"pandas", "psycopg", "pyspark", "pytest", "uvloop"}
"""What only extras bring that are not installed here."""


class _Worker(AbstractCoordinator):
    protocol_type = "smoke"
    shards: list[int] | None = None

    @override
    def metadata(self) -> Mapping[str, bytes]:
        return {"range": b""}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        shares = assign_range(range(8), members)
        return {member: json.dumps(shards).encode() for member, shards in shares.items()}

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.shards = json.loads(assignment)


def import_everything() -> int:
    """Import every module of both packages, but for those that need an extra; returns how many."""
    imported = 0
    for package in (groupsdk, assignors):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in _OPTIONAL:
                    raise
            else:
                imported += 1
    return imported


def main() -> None:
    """Import, join, consume and assign; any failure is raised."""
    imported = import_everything()
    groups = sum(check_assignor(resolve(name), cases=5) for name in known_assignors())
    with EmbeddedBroker(topics={"orders": 4}) as broker:
        with _Worker(bootstrap_servers=broker.bootstrap_servers, group_id="workers") as worker:
            while worker.shards is None:
                worker.poll(1.0)
        assert worker.shards == list(range(8)), worker.shards
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"one")
        producer.flush()
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
        }
        with GroupConsumer(settings) as consumer:
            consumer.subscribe(["orders"])
            while not (messages := consumer.consume(500, timeout=1.0)):
                pass
            consumer.commit(asynchronous=False)
        assert [message.value() for message in messages] == [b"one"]
    print(f"{imported} modules imported, {groups} groups assigned, a worker and a consumer served")


if __name__ == "__main__":
    main()
