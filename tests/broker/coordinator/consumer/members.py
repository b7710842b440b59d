"""A member of a consumer group over a connection of its own, for tests of a broker that runs."""

from collections.abc import Mapping
from typing import Any, Protocol, Self
from uuid import UUID

from groupsdk.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.broker.clients import Client
from tests.support.workers import eventually


class Served(Protocol):
    """A broker of either make."""

    @property
    def bootstrap_servers(self) -> str: ...


def connected(broker: Served) -> Client:
    """Connects to the first node of a broker."""
    host, _, port = broker.bootstrap_servers.split(",")[0].rpartition(":")
    return Client((host, int(port)))


class WireMember:
    """Sends heartbeats when the test says so, and acknowledges what it is given."""

    def __init__(self, broker: Served, group_id: str, member_id: str, **fields: Any) -> None:
        self.client = connected(broker)
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.owned: Mapping[UUID, tuple[int, ...]] = {}
        self._fields = {"subscribed_topic_names": ("t",), "rebalance_timeout_ms": 60_000, **fields}
        self._tells = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.socket.close()

    @property
    def size(self) -> int:
        """How many partitions it has."""
        return sum(map(len, self.owned.values()))

    def move(self, broker: Served) -> None:
        """Goes on with another broker, as if nothing had happened."""
        self.client.socket.close()
        self.client = connected(broker)

    def heartbeat(self, epoch: int | None = None) -> ConsumerGroupHeartbeatResponse:
        """Sends one heartbeat and takes what it is told."""
        fields: dict[str, Any] = {"instance_id": self._fields.get("instance_id")}
        if not self.epoch:
            fields = {**self._fields, "topic_partitions": ()}
        elif self._tells:
            fields["topic_partitions"] = tuple(
                TopicPartitions(*each) for each in self.owned.items()
            )
        answer = self.client.ask(
            ConsumerGroupHeartbeatRequest(
                *(self.group_id, self.member_id, self.epoch if epoch is None else epoch), **fields
            )
        )
        if answer.error_code == 0 and epoch is None:
            self.epoch = answer.member_epoch
            self._tells = False
            if answer.assignment is not None:
                given = answer.assignment.topic_partitions
                new = {each.topic_id: each.partitions for each in given}
                self._tells = new != self.owned
                self.owned = new
        return answer

    def until(self, size: int) -> None:
        """Sends heartbeats until it has so many partitions and said so."""

        def has_them() -> bool:
            answer = self.heartbeat()
            assert answer.error_code == 0, answer
            return self.size == size and not self._tells

        eventually(has_them, lambda: f"{self.member_id} has {self.owned}", 60.0)
