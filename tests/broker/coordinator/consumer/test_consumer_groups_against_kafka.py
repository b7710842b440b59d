"""The coordinator beside a real Kafka: random requests to consumer groups get the same answers."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from secrets import randbelow
from typing import Any
from uuid import UUID

import pytest

from groupsdk.broker.coordinator.consumer.topics import TopicInfo
from groupsdk.testing import LocalKafka
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions
from groupsdk.wire.messages.group_admin import ConsumerGroupDescribeRequest
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupsdk.wire.messages.metadata import FindCoordinatorRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.transactions import (
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from groupsdk.wire.schema import Request
from tests.broker.clients import Client, eventually
from tests.broker.coordinator.consumer.rig import Rig, Topics


TOPICS = {"ct": 5, "cu": 2}
STEPS = 40
SEQUENCES = 200
MANY_SEQUENCES = 5_000
TRANSACTION = "beside-kafka"
MEMBER_ID_REQUIRED = 79
PROTOCOLS = (("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin",))
HALT_MS = 600_000
"""Longer than Kafka's process, or ours, may stand still: Kafka's time passes, and that of ours does not."""
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    # a machine that halts ends no session, and no write
    "group.consumer.session.timeout.ms": f"{HALT_MS}",
    "group.consumer.max.session.timeout.ms": f"{HALT_MS}",
    "offsets.commit.timeout.ms": f"{HALT_MS}",
    # a run of 200,000 steps takes longer than the 15 minutes that a transaction may
    "transaction.max.timeout.ms": "7200000",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("4.4.0", marks=pytest.mark.slow)])
def release(request: pytest.FixtureRequest) -> str:
    """The release of Kafka beside which ours is held."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def client(kafka_installed: None, release: str) -> Iterator[Client]:
    """A connection to a Kafka that assigns at once."""
    with LocalKafka(properties=SETTINGS, version=release) as kafka:
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        with Client((host, int(port)), "c") as connected:
            yield connected


@pytest.fixture(scope="module")
def producer(client: Client) -> tuple[int, int]:
    """The id and epoch of a producer whose transaction ends with the test."""
    asked = InitProducerIdRequest(TRANSACTION, 7_200_000)
    for request in (FindCoordinatorRequest(TRANSACTION, 1), asked):
        eventually(partial(_code, client, request), 0)
    answer = client.ask(asked, 5)
    return answer.producer_id, answer.producer_epoch


def _code(client: Client, request: Request[Any]) -> int:
    version = 2 if isinstance(request, FindCoordinatorRequest) else 5
    answer: Any = client.ask(request, version)
    return int(answer.error_code)


@pytest.fixture(scope="module")
def topics(client: Client) -> Topics:
    """The topics of that Kafka, with its ids."""
    asked = tuple(CreatableTopic(name, count, 1) for name, count in TOPICS.items())
    made = client.ask(CreateTopicsRequest(asked))
    topics = Topics()
    for each in made.topics:
        assert each.error_code == 0
        topics._topics[each.name] = TopicInfo(each.topic_id, each.name, TOPICS[each.name], ())
    attempts = count()

    def assigned() -> int:
        joined = client.ask(
            ConsumerGroupHeartbeatRequest(
                *(f"warm-{next(attempts)}", "m", 0),
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=tuple(TOPICS),
                topic_partitions=(),
            )
        )
        return 0 if joined.assignment is None else len(joined.assignment.topic_partitions)

    eventually(assigned, len(TOPICS))  # once the group coordinator has heard of them
    return topics


@dataclass
class _Member:
    """What a member of a schedule knows."""

    member_id: str
    instance_id: str | None
    classic: bool = False
    epoch: int = 0
    owned: dict[UUID, tuple[int, ...]] = field(default_factory=dict)
    protocol: str = "range"


class _Both:
    """Sends every request to both, and holds the answers equal."""

    def __init__(
        self,
        client: Client,
        topics: Topics,
        producer: tuple[int, int],
        group_id: str,
        release: str,
        seed: int,
    ) -> None:
        self.client = client
        self.producer = producer
        self.group_id = group_id
        self.topics = topics
        self.random = random.Random(seed)
        self.rig = Rig(topics, check_reload=False, group_consumer_release=release[:3])
        self.members: list[_Member] = []
        self.names = self.random.choice([None, ("ct",)])
        self.assignors = self.random.choice([(None,), ("range",), (None, "range", "uniform")])
        self.others = ["none", "range"]
        if release == "4.4.0":
            # with a tie of two, it may raise the epoch with each heartbeat: not copied
            self.assignors = self.assignors[-1:]
            self.others = ["none"]
        self.made = 0
        self.steps = 0
        self.said: list[str] = []

    @property
    def is_classic(self) -> bool:
        """Whether the group has gone back to the classic protocol."""
        return self.rig.shard.group(self.group_id) is not None

    def ask(self, request: Request[Any], version: int) -> Any:
        """Asks both; returns the answer."""
        self.steps += 1
        theirs = self.client.ask(request, version)
        token, _ = self.rig.send(request, version)
        self.rig.settle()
        ours = self.rig.answers.pop(token)
        self.said.append(f"{request}\n    kafka {_plain(theirs)}\n    ours  {_plain(ours)}")
        assert _plain(ours) == _plain(theirs), "\n".join(self.said[-12:])
        return ours

    def play(self) -> None:
        for _ in range(STEPS):
            self._step()
        described = ConsumerGroupDescribeRequest((self.group_id,))
        self.ask(described, 1)

    def _step(self) -> None:
        chosen = self.random
        action = chosen.random()
        if self.is_classic and self.members:
            self._classic_group()
        elif not self.members or (action < 0.15 and len(self.members) < 5):
            self._new()
        elif action < 0.22:
            self._leave(chosen.choice(self.members))
        elif action < 0.32:
            self._commit(chosen.choice(self.members))
        elif action < 0.36:
            self.ask(ConsumerGroupDescribeRequest((self.group_id,)), 1)
        else:
            member = chosen.choice(self.members)
            if chosen.random() < 0.03:
                member.classic = not member.classic
                if member.classic:
                    self._join(member)
                    return
            if member.classic:
                self._classic(member)
            else:
                self._heartbeat(member)

    def _classic_group(self) -> None:
        """Asks what a classic group answers at once; a consumer that joins makes it one of consumers again."""
        chosen = self.random
        action = chosen.random()
        member = chosen.choice(self.members)
        if action < 0.2:
            beat = HeartbeatRequest(self.group_id, member.epoch, member.member_id)
            self.ask(beat, 4)
        elif action < 0.4:
            self._commit(member)
        elif action < 0.6:
            # of protocols that all members offer, or not: refused, or told to join with an id
            self._stranger(chosen.choice([*PROTOCOLS, ("none",)]))
        elif action < 0.7:
            sync = SyncGroupRequest(
                self.group_id, member.epoch, member.member_id, None, "consumer", "range"
            )
            self.ask(sync, 5)
        else:
            self.made += 1
            member = _Member(f"m{self.made}", None)
            self.members.append(member)
            self._heartbeat(member)

    def _stranger(self, protocols: tuple[str, ...]) -> None:
        self.ask(self._join_request("", None, protocols, _subscription(("ct",), {}, -1)), 9)

    def _new(self) -> None:
        chosen = self.random
        self.made += 1
        instance = f"i{chosen.randint(1, 2)}" if chosen.random() < 0.3 else None
        has_consumers = any(not each.classic for each in self.members)
        classic = has_consumers and instance is None and chosen.random() < 0.35
        member = _Member(f"m{self.made}", instance, classic)
        self.members.append(member)
        if classic:
            self._join(member)
        else:
            self._heartbeat(member)

    def _heartbeat(self, member: _Member) -> None:
        chosen = self.random
        joins = member.epoch == 0 or chosen.random() < 0.05
        epoch = 0 if joins else member.epoch
        if not joins and chosen.random() < 0.08:
            epoch = max(member.epoch + chosen.choice([-2, -1, 1, 5]), 1)
        # A member that joins with no topic at all is none of what Kafka's assignors know: they give it a share
        # of what all others read, which nobody gets. Ours gives it nothing.
        some: list[tuple[str, ...]] = [("ct",), ("ct",), ("cu",), ("ct", "cu")]
        names = self.names or chosen.choice(some if joins else [*some, ()])
        assignor = chosen.choice(self.assignors)
        if not joins:
            assignor = chosen.choice([None, None, *self.others, assignor])
        owned = dict(member.owned)
        if owned and chosen.random() < 0.2:
            owned.popitem()
        told = list(owned.items())
        if chosen.random() < 0.2:
            # a topic in several elements
            told = [(topic_id, (index,)) for topic_id, indexes in told for index in indexes]
        tells = chosen.random() < 0.6
        answer = self.ask(
            ConsumerGroupHeartbeatRequest(
                *(self.group_id, member.member_id, epoch),
                member.instance_id if joins or chosen.random() < 0.5 else None,
                chosen.choice([None, "r1"]),
                HALT_MS if joins or chosen.random() < 0.1 else -1,
                names if joins or chosen.random() < 0.15 else None,
                None,
                assignor,
                () if joins else tuple(TopicPartitions(*each) for each in told) if tells else None,
            ),
            1,
        )
        if answer.error_code == 0:
            member.epoch = answer.member_epoch
            if answer.assignment is not None:
                given = answer.assignment.topic_partitions
                member.owned = {each.topic_id: tuple(each.partitions) for each in given}
        elif answer.error_code in {25, 110, 82, 111, 69}:
            member.epoch, member.owned = 0, {}
            if answer.error_code in {82, 111}:
                self.members.remove(member)

    def _leave(self, member: _Member) -> None:
        chosen = self.random
        consumers = [each for each in self.members if not each.classic]
        last = any(each.classic for each in self.members) and len(consumers) < 2
        if last and not member.classic and chosen.random() < 0.5:
            return  # it takes the group back to the classic protocol
        if member.classic or chosen.random() < 0.3:
            named = MemberIdentity(member.member_id, member.instance_id)
            leaving = (named,) * chosen.choice([1, 1, 2])
            answer = self.ask(LeaveGroupRequest(group_id=self.group_id, members=leaving), 5)
            gone = answer.members[0].error_code == 0 if answer.members else False
        else:
            away = member.instance_id is not None and chosen.random() < 0.5
            request = ConsumerGroupHeartbeatRequest(
                self.group_id, member.member_id, -2 if away else -1, member.instance_id
            )
            gone = self.ask(request, 1).error_code == 0
        if gone:
            self.members.remove(member)

    def _commit(self, member: _Member) -> None:
        chosen = self.random
        epoch = max(member.epoch + chosen.choice([0, 0, 0, -1, -1, -2, 1]), chosen.choice([-1, 0]))
        member_id = chosen.choice([member.member_id, member.member_id, "nobody", ""])
        instance_id = chosen.choice([None, None, member.instance_id])
        indexes = [chosen.randint(0, 4) for _ in range(chosen.choice([1, 1, 2]))]
        metadata = chosen.choice(["", "", "", "x" * 5_000])
        if chosen.random() < 0.5:
            places = tuple(OffsetCommitRequestPartition(each, 1, -1, metadata) for each in indexes)
            request = OffsetCommitRequest(
                *(self.group_id, epoch, member_id, instance_id),
                topics=(OffsetCommitRequestTopic("ct", partitions=places),),
            )
            self.ask(request, chosen.choice([8, 9]))
        else:
            within = tuple(
                TxnOffsetCommitRequestPartition(each, 1, -1, metadata) for each in indexes
            )
            transactional = TxnOffsetCommitRequest(
                *(TRANSACTION, self.group_id, *self.producer, epoch, member_id, instance_id),
                (TxnOffsetCommitRequestTopic("ct", partitions=within),),
            )
            self.ask(transactional, 5)
        asked = OffsetFetchRequestGroup(
            self.group_id,
            chosen.choice([None, member.member_id]),
            chosen.choice([-1, member.epoch]),
            (OffsetFetchRequestTopics("ct", partition_indexes=(0, 1)),),
        )
        if asked.member_id is None:
            return
        self.ask(OffsetFetchRequest(groups=(asked,)), 9)

    def _join(self, member: _Member) -> None:
        names = self.names or self.random.choice([("ct",), ("ct", "cu")])
        owned = {
            topic.name: list(indexes)
            for topic_id, indexes in member.owned.items()
            if (topic := self.topics.topic_by_id(topic_id)) is not None
        }
        data = _subscription(names, owned, max(member.epoch, -1))
        protocols = self.random.choice(PROTOCOLS)
        request = self._join_request(member.member_id, member.instance_id, protocols, data)
        answer = self.ask(request, 9)
        if answer.error_code == 0:
            member.epoch, member.protocol = answer.generation_id, answer.protocol_name
        else:
            # it is out of the schedule; the group may still have it
            self.members.remove(member)
            leaving = (MemberIdentity(member.member_id, None),)
            if not self.is_classic:
                self.ask(LeaveGroupRequest(group_id=self.group_id, members=leaving), 5)

    def _join_request(
        self, member_id: str, instance_id: str | None, protocols: tuple[str, ...], data: bytes
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=HALT_MS,
            rebalance_timeout_ms=HALT_MS,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=tuple(JoinGroupRequestProtocol(each, data) for each in protocols),
        )

    def _classic(self, member: _Member) -> None:
        chosen = self.random
        action = chosen.random()
        generation = member.epoch if chosen.random() < 0.9 else member.epoch + 1
        if action < 0.4:
            beat = HeartbeatRequest(self.group_id, generation, member.member_id)
            if self.ask(beat, 4).error_code == 27 and chosen.random() < 0.7:
                self._join(member)
        elif action < 0.7:
            sync = SyncGroupRequest(
                *(self.group_id, generation, member.member_id, None),
                *chosen.choice([("consumer", member.protocol)] * 3 + [(None, None)]),
            )
            self._take(member, self.ask(sync, 5))
        else:
            self._join(member)

    def _take(self, member: _Member, answer: Any) -> None:
        if answer.error_code != 0:
            return
        given = ConsumerProtocolDecoder().assignment(answer.assignment).assigned_partitions
        member.owned = {self.topics.id_of(name): tuple(each) for name, each in given.items()}


def _subscription(names: tuple[str, ...], owned: dict[str, list[int]], generation: int) -> bytes:
    return ConsumerProtocolEncoder().subscription(
        ConsumerProtocolSubscription(names, None, owned, generation), 2
    )


def _plain(answer: Any) -> Any:
    """Leaves of an answer what must be equal: no texts, no order of topics."""
    if isinstance(answer, SyncGroupResponse) and answer.assignment:
        given = ConsumerProtocolDecoder().assignment(answer.assignment)
        return (answer.assignment[:2], sorted(given.assigned_partitions.items()), given.user_data)
    if hasattr(answer, "__dataclass_fields__"):
        left_out = {"error_message", "throttle_time_ms", "client_host", "authorized_operations"}
        if getattr(answer, "error_code", 0) == MEMBER_ID_REQUIRED:
            left_out |= {"member_id"}
        return {
            name: _plain(getattr(answer, name))
            for name in answer.__dataclass_fields__
            if name not in left_out and name not in {"api", "unknown_tagged_fields"}
        }
    if isinstance(answer, tuple | list):
        made = [_plain(each) for each in answer]
        return sorted(made, key=str)
    return answer


def _play_all(
    client: Client,
    topics: Topics,
    producer: tuple[int, int],
    group_id: str,
    release: str,
    seeds: range,
) -> None:
    for seed in seeds:
        both = _Both(client, topics, producer, f"{group_id}-{seed}", release, seed)
        try:
            both.play()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


@pytest.mark.timeout(300)
def test_random_requests_get_the_answers_of_kafka(
    client: Client, topics: Topics, producer: tuple[int, int], group_id: str, release: str
) -> None:
    _play_all(client, topics, producer, group_id, release, range(SEQUENCES))


@pytest.mark.slow
@pytest.mark.timeout(7_200)  # at a load of 12 on two cores it takes 25 minutes
def test_many_random_requests_get_the_answers_of_kafka(
    client: Client, topics: Topics, producer: tuple[int, int], group_id: str, release: str
) -> None:
    first = randbelow(2**32)  # fresh ones; a failure names its seed
    _play_all(client, topics, producer, group_id, release, range(first, first + MANY_SEQUENCES))
