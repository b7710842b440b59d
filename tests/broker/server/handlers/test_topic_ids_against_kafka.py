"""Offsets by topic id beside a real Kafka: random requests get the same answers, on each release that is followed."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.connection import ApiVersionsRequest
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.metadata import FindCoordinatorRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from groupsdk.wire.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from groupsdk.wire.schema import NO_UUID, ApiKey, Request, Response
from tests.broker.clients import Client, connect, eventually


RELEASES = {"4.3": "4.3.1", "4.4": "4.4.0"}
TOPICS = {"t": 3, "u": 2}
UNKNOWN = {"unknown": UUID(int=77), "zero": NO_UUID}
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    # a machine that halts ends no session
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
STEPS = 400
_ATTEMPTS = 100_000
_NOT_YET = {3, 14, 15, 16, 51}
R = TypeVar("R", bound=Response)


@dataclass
class _Side:
    """A broker, and what is its own: the ids of its topics, its producer."""

    client: Client
    ids: dict[str, UUID] = field(default_factory=dict)
    producer: tuple[int, int] = (-1, -1)

    def prepare(self) -> None:
        """Create the topics, the consumer group and a producer."""
        asked = tuple(CreatableTopic(name, count, 1) for name, count in TOPICS.items())
        made = self.client.ask(CreateTopicsRequest(asked))
        self.ids = {each.name: each.topic_id for each in made.topics} | UNKNOWN
        joining = ConsumerGroupHeartbeatRequest(
            group_id="consumers",
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=tuple(TOPICS),
            topic_partitions=(),
        )
        self.until_taken(FindCoordinatorRequest(coordinator_keys=("consumers",)), 4)
        for name, count in TOPICS.items():
            for index in range(count):  # until the coordinator has heard of them
                partitions = (OffsetCommitRequestPartition(index, 1),)
                topics = (OffsetCommitRequestTopic(name, partitions=partitions),)
                self.until_taken(OffsetCommitRequest("warm-up", topics=topics), 9)
        self.until_taken(joining, 1)
        finding = FindCoordinatorRequest(key_type=1, coordinator_keys=("x",))
        self.until_taken(finding, 4)
        self.begin()

    def begin(self) -> None:
        """Get a producer id and an epoch."""
        answer = self.until_taken(InitProducerIdRequest("x", 600_000), 4)
        self.producer = (answer.producer_id, answer.producer_epoch)

    def until_taken(self, request: Request[R], version: int) -> R:
        """Ask until the broker is ready for it."""
        codes: set[int] = set()
        for _ in range(_ATTEMPTS):
            answer = self.client.ask(request, version)
            codes = set(_codes(answer))
            if not codes & _NOT_YET:
                assert codes <= {0}, answer
                return answer
        raise AssertionError(f"not ready: {codes}")


def _codes(answer: Any) -> Iterator[int]:
    if hasattr(answer, "error_code"):
        yield answer.error_code
    for name in ("coordinators", "topics", "partitions"):
        for each in getattr(answer, name, ()):
            yield from _codes(each)


class _Schedule:
    """Random requests to both; the answers are held equal."""

    def __init__(self, kafka: _Side, ours: _Side, newest_in_transaction: int, seed: int) -> None:
        self.sides = (kafka, ours)
        self.random = random.Random(seed)
        self.newest_in_transaction = newest_in_transaction
        self.said: list[str] = []
        self.offset = 0

    def run(self) -> None:
        acts = [self.commit, self.fetch, self.fetch_all, self.commit_in_transaction, self.end]
        for act in self.random.choices(acts, [8, 8, 2, 6, 2], k=STEPS):
            act()

    def both(self, build: Any, version: int) -> None:
        """Ask both; `build` makes the request for a side."""
        theirs, ours = [
            _told(each.client.ask(build(each), version), each.ids) for each in self.sides
        ]
        self.said.append(f"v{version} {build(self.sides[1])}\n  kafka {theirs}\n  ours  {ours}")
        assert ours == theirs, "\n".join(self.said[-6:])

    def places(self, *, by_id: bool) -> dict[str, tuple[int, ...]]:
        """Topics and partitions, some of which do not exist."""
        names = [*TOPICS, *UNKNOWN] if by_id else [*TOPICS, "unknown"]
        chosen = self.random.sample(names, self.random.randint(1, 3))
        return {
            name: tuple(self.random.sample((0, 1, 2, 7), self.random.randint(1, 3)))
            for name in chosen
        }

    def member(self) -> tuple[str, str, int]:
        """A group, a member and an epoch: mostly those that there are."""
        if self.random.random() < 0.4:
            return self.random.choice(["simple", "simple", "nobody's"]), "", -1
        if self.random.random() < 0.2:
            return "none", "m", 3
        return (
            "consumers",
            self.random.choice(["m", "m", "m", "", "n"]),
            self.random.choice([2, 2, 2, 1, 3, -1]),
        )

    def commit(self) -> None:
        version = self.random.choice([8, 9, 10, 10])
        group_id, member_id, epoch = self.member()
        places = self.places(by_id=version >= 10)
        self.offset += 1
        metadata = {
            index: self.random.choice(["", "", None, "m", "x" * 4_097]) for index in range(8)
        }

        def build(side: _Side) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id,
                epoch,
                member_id,
                topics=tuple(
                    OffsetCommitRequestTopic(
                        *_named(side, name, by_id=version >= 10),
                        tuple(
                            OffsetCommitRequestPartition(index, self.offset, -1, metadata[index])
                            for index in indexes
                        ),
                    )
                    for name, indexes in places.items()
                ),
            )

        self.both(build, version)

    def fetch(self) -> None:
        version = self.random.choice([8, 9, 10, 10])
        group_id, member_id, epoch = self.member()
        places = self.places(by_id=version >= 10)
        stable = self.random.random() < 0.5

        def build(side: _Side) -> OffsetFetchRequest:
            group = OffsetFetchRequestGroup(
                group_id,
                member_id or None,
                epoch,
                topics=tuple(
                    OffsetFetchRequestTopics(*_named(side, name, by_id=version >= 10), indexes)
                    for name, indexes in places.items()
                ),
            )
            return OffsetFetchRequest(groups=(group,), require_stable=stable)

        self.both(build, version)

    def fetch_all(self) -> None:
        groups = tuple(
            OffsetFetchRequestGroup(group_id, topics=None)
            for group_id in self.random.sample(["simple", "consumers", "none"], 2)
        )
        self.both(lambda _: OffsetFetchRequest(groups=groups), self.random.choice([8, 9, 10]))

    def commit_in_transaction(self) -> None:
        version = self.random.choice([5, self.newest_in_transaction])
        group_id, member_id, epoch = self.member()
        places = self.places(by_id=version >= 6)
        self.offset += 1

        def build(side: _Side) -> TxnOffsetCommitRequest:
            return TxnOffsetCommitRequest(
                "x",
                group_id,
                *side.producer,
                epoch,
                member_id,
                topics=tuple(
                    TxnOffsetCommitRequestTopic(
                        *_named(side, name, by_id=version >= 6),
                        tuple(
                            TxnOffsetCommitRequestPartition(index, self.offset) for index in indexes
                        ),
                    )
                    for name, indexes in places.items()
                ),
            )

        self.both(build, version)

    def end(self) -> None:
        committed = self.random.random() < 0.7
        for side in self.sides:
            side.client.ask(EndTxnRequest("x", *side.producer, committed), 4)
            side.begin()


def _named(side: _Side, name: str, *, by_id: bool) -> tuple[str, UUID]:
    return ("", side.ids[name]) if by_id else (name, NO_UUID)


def _told(answer: Any, ids: dict[str, UUID]) -> Any:
    """What must be equal: topics by the names of the test, in no order."""
    names = {topic_id: name for name, topic_id in ids.items()}
    told: list[Any] = [
        (each.group_id, each.error_code, _told(each, ids)) for each in getattr(answer, "groups", ())
    ]
    for topic in answer.topics:
        name = topic.name or names[topic.topic_id]
        told += [
            (name, each.partition_index, each.error_code, getattr(each, "committed_offset", None))
            for each in topic.partitions
        ]
    return sorted(told, key=repr)


@pytest.fixture(scope="module", params=list(RELEASES))
def sides(
    request: pytest.FixtureRequest, kafka_installed: None
) -> Iterator[tuple[_Side, _Side, int]]:
    """A Kafka, and an embedded broker that follows its release; and the newest TxnOffsetCommit."""
    release = request.param
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(version=RELEASES[release], properties=SETTINGS))
        theirs = stack.enter_context(connect(kafka))
        settings = {**SETTINGS, "group.consumer.release": release}
        broker = stack.enter_context(EmbeddedBroker(settings))
        ours = stack.enter_context(connect(broker))
        both = (_Side(theirs), _Side(ours))
        for each in both:
            each.prepare()
        newest = {
            next(
                api.max_version
                for api in each.client.ask(ApiVersionsRequest("test", "1"), 3).api_keys
                if api.api_key == ApiKey.TXN_OFFSET_COMMIT
            )
            for each in both
        }
        assert len(newest) == 1
        yield (*both, newest.pop())


@pytest.mark.timeout(300)
def test_random_requests_by_topic_id_get_the_answers_of_kafka(
    sides: tuple[_Side, _Side, int],
) -> None:
    for seed in range(3):
        try:
            _Schedule(*sides, seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


def _committed(client: Client, topic_id: UUID) -> list[tuple[int, int, int]]:
    """Fetches the offsets of a topic by its id: partition, offset, error."""
    topics = (OffsetFetchRequestTopics("", topic_id, (0, 1)),)
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("recreated", topics=topics),))
    (topic,) = client.ask(asked, 10).groups[0].topics
    return [
        (each.partition_index, each.committed_offset, each.error_code) for each in topic.partitions
    ]


def _commit(client: Client, name: str, topic_id: UUID, index: int) -> int:
    """Commits an offset by name, or by id where the name is empty; returns the error."""
    topics = (OffsetCommitRequestTopic(name, topic_id, (OffsetCommitRequestPartition(index, 5),)),)
    answer = client.ask(OffsetCommitRequest("recreated", topics=topics), 9 if name else 10)
    return answer.topics[0].partitions[0].error_code


def check_a_topic_that_is_created_again(client: Client) -> None:
    """Commits and fetches by the id of a topic, of the deleted topic, and of one that has its name."""

    def create() -> UUID:
        creating = CreateTopicsRequest((CreatableTopic("recreated", 2, 1),), timeout_ms=30_000)
        (made,) = client.ask(creating).topics
        assert made.error_code == 0, made
        return made.topic_id

    def delete() -> None:
        topics = (DeleteTopicState("recreated"),)
        deleted = client.ask(DeleteTopicsRequest(topics, timeout_ms=30_000), 6)
        assert deleted.responses[0].error_code == 0

    unknown, nothing = int(ErrorCode.UNKNOWN_TOPIC_ID), (0, -1, 0)
    first = create()
    eventually(lambda: _commit(client, "", first, 0), 0)
    assert _commit(client, "recreated", NO_UUID, 1) == 0
    assert _committed(client, first) == [(0, 5, 0), (1, 5, 0)]
    delete()
    gone = [(0, -1, unknown), (1, -1, unknown)]
    eventually(lambda: _committed(client, first), gone)
    assert _commit(client, "", first, 0) == unknown
    assert _commit(client, "recreated", NO_UUID, 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    second = create()
    eventually(lambda: _committed(client, second), [nothing, (1, -1, 0)])
    assert _commit(client, "", first, 0) == unknown
    assert _commit(client, "recreated", NO_UUID, 1) == 0
    assert _committed(client, second) == [nothing, (1, 5, 0)]
    assert _committed(client, first) == gone
    delete()


def test_a_topic_that_is_created_again_has_no_offsets(client: Client) -> None:
    check_a_topic_that_is_created_again(client)


def test_kafka_has_no_offsets_for_a_topic_that_is_created_again(kafka: LocalKafka) -> None:
    with connect(kafka) as client:
        check_a_topic_that_is_created_again(client)
