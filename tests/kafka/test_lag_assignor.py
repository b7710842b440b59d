"""The assignor `lag` in groups of three consumers: on Kafka and the embedded broker, and in the latter's coordinator."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Final

import pytest

from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from groupsdk.testing import LocalKafka
from tests.support.topics import create_topic, write_records
from tests.support.workers import eventually


PARTITIONS: Final = 6
HEAVY: Final = 2_000
QUICK: Final[dict[str, Any]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 50,
}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    """A broker whose coordinator assigns by lag."""
    with EmbeddedBroker(QUICK, group_consumer_assignors="lag,uniform") as broker:
        yield broker


class Trio:
    """Three consumers of a topic, polled in turn; they read what is asked of them and no more."""

    def __init__(self, servers: str, group_id: str, **settings: Any) -> None:
        self.servers = servers
        self.topic = f"t-{group_id}"
        for name in (self.topic, f"other-{group_id}"):
            create_topic(servers, name, PARTITIONS)
        self.write(dict.fromkeys(range(PARTITIONS), 1))
        given = {
            "bootstrap_servers": servers,
            "group_id": group_id,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        } | settings
        self.consumers = [GroupConsumer(given, client_id=f"c-{each}") for each in range(3)]

    def write(self, counts: dict[int, int]) -> None:
        write_records(self.servers, self.topic, counts)

    def until(self, done: Callable[[], object], count: int = 0) -> None:
        def look() -> object:
            for each in self.consumers:
                each.consume(count, 0.02)
            return done()

        eventually(look, self.owners)

    def owners(self) -> dict[int, int]:
        return {
            place.partition: number
            for number, each in enumerate(self.consumers)
            for place in each.assignment()
            if place.topic == self.topic
        }

    def is_even(self) -> bool:
        owned = [len(each.assignment()) for each in self.consumers]
        return sum(owned) == len(self.owners()) == PARTITIONS and set(owned) == {2}

    def read_first(self) -> None:
        """Form the group, and read and commit the first record of each partition."""
        for each in self.consumers:
            each.subscribe(self.topic)

        def read() -> bool:
            positions = [
                p.offset for each in self.consumers for p in each.position(each.assignment())
            ]
            return self.is_even() and positions == [1] * PARTITIONS

        self.until(read, count=1)
        for each in self.consumers:
            each.commit(asynchronous=False)

    def burden(self, number: int) -> set[int]:
        """Let much come into both partitions of a consumer, and wait until it has seen that."""
        mine = {place.partition for place in self.consumers[number].assignment()}
        self.write(dict.fromkeys(mine, HEAVY))
        ends = self.consumers[number].get_watermark_offsets
        self.until(
            lambda: all(
                ends(TopicPartition(self.topic, each), cached=True)[1] > HEAVY for each in mine
            )
        )
        return mine


@pytest.mark.parametrize("broker", ["embedded", "kafka"])
@pytest.mark.parametrize("group_type", ["consumer", "work"])
def test_three_consumers_share_the_lag_of_one(
    request: pytest.FixtureRequest, broker: str, group_type: str, group_id: str
) -> None:
    running: EmbeddedBroker | LocalKafka = request.getfixturevalue(broker)
    trio = Trio(
        running.bootstrap_servers,
        group_id,
        partition_assignment_strategy="lag",
        group_protocol_type=group_type,
        heartbeat_interval_ms=200,
    )
    with ExitStack() as stack:
        for each in trio.consumers:
            stack.enter_context(closing(each))
        trio.read_first()
        heavy = trio.burden(1)
        before = trio.owners()
        trio.consumers[0].enforce_rebalance()
        trio.until(lambda: trio.is_even() and len({trio.owners()[each] for each in heavy}) == 2)
        after = trio.owners()
        assert sum(before[each] != after[each] for each in before) == 2
        # a few more records everywhere are noise: the next rebalance moves nothing
        trio.write(dict.fromkeys(range(PARTITIONS), 100))
        generation = trio.consumers[0].generation().generation_id
        trio.consumers[2].enforce_rebalance()
        trio.until(
            lambda: all(
                (found := each.generation_if_stable()) and found.generation_id > generation
                for each in trio.consumers
            )
        )
        assert trio.owners() == after


def test_the_embedded_coordinator_shares_the_lag_of_members_of_kip_848(
    embedded: EmbeddedBroker, group_id: str
) -> None:
    trio = Trio(embedded.bootstrap_servers, group_id, group_protocol="consumer")
    with ExitStack() as stack:
        for each in trio.consumers:
            stack.enter_context(closing(each))
        trio.read_first()
        heavy = trio.burden(1)
        before = trio.owners()
        # a new epoch: what the group subscribes to has changed
        trio.consumers[0].subscribe([trio.topic, "not-there"])
        trio.until(lambda: trio.is_even() and len({trio.owners()[each] for each in heavy}) == 2)
        after = trio.owners()
        assert sum(before[each] != after[each] for each in before) == 2
