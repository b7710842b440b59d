"""The machine beside a real Kafka: the same requests get the same answers, member ids apart."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import count
from random import Random
from typing import Any

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.testing import LocalKafka
from groupsdk.wire.compiler import decode, encode
from groupsdk.wire.messages.group_admin import (
    DeleteGroupsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from groupsdk.wire.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.schema import Request
from tests.broker.clients import Client, eventually
from tests.broker.coordinator.group.driving import QUICK, Driver, subscription


TOPIC = "against-kafka"
PARTITIONS = 3
CLIENT_ID = "c"
ANSWER_S = 60.0
STEPS = 120
NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")


class Connection(Client):
    """One connection, for one request."""

    def __init__(self, address: tuple[str, int], request: Request[Any], version: int) -> None:
        super().__init__(address, CLIENT_ID)
        self._request = request
        self._sent = self.send(request, version)

    def is_answered(self) -> bool:
        self.socket.setblocking(False)
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            self.socket.settimeout(ANSWER_S)

    def receive(self) -> Any:
        with self:
            return self.answer(self._request, self._sent)


@dataclass
class Known:
    """A member that the schedule knows, by the id that the machine gave it."""

    member_id: str
    instance_id: str | None = None


@dataclass
class Both:
    """A Kafka and the machine, and how the ids of one are called by the other."""

    address: tuple[str, int]
    group_id: str
    driver: Driver = field(default_factory=lambda: Driver(QUICK))
    waiting: dict[int, Connection] = field(default_factory=dict)
    to_kafka: dict[str, str] = field(default_factory=dict)
    members: list[Known] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    instances: dict[int, str | None] = field(default_factory=dict)

    def ask(self, request: Request[Any], version: int) -> None:
        """Send a request to both; compare every answer that the machine gives for it."""
        connection = Connection(self.address, self.translated(request), version)
        known = set(self.driver.answers)
        token = self.driver.send(request, version, client_id=CLIENT_ID)
        self.driver.pass_ms(0)
        self.waiting[token] = connection
        self.said.append(f"{token} v{version} {request}")
        if isinstance(request, JoinGroupRequest):
            self.instances[token] = request.group_instance_id
        told = sorted(set(self.driver.answers) - known)
        if token not in told:
            self.wait_until_read()
        theirs = {each: self.waiting.pop(each).receive() for each in told}
        for each in told:
            self.learn(each, theirs[each])
        for each in told:
            self.compare(each, theirs[each])

    def wait_until_read(self) -> None:
        """Wait until Kafka has taken what was sent: a request that it parks says nothing of itself."""
        nobodys = HeartbeatRequest(self.group_id, -1, "nobody")
        assert Connection(self.address, nobodys, 0).receive().error_code

    def ours(self, token: int) -> Any:
        """Return the machine's answer as its version tells it."""
        given, version = self.driver.answers[token], self.driver.versions[token]
        return decode(type(given), version, encode(given, version))

    def compare(self, token: int, theirs: Any) -> None:
        ours = self.ours(token)
        told = "\n".join([*self.said[-40:], f"ours   {ours}", f"theirs {theirs}"])
        known = frozenset(self.to_kafka.values())
        assert normal(self.translated(ours), known) == normal(theirs, known), told

    def learn(self, token: int, theirs: Any) -> None:
        """Take note of how Kafka calls a member that has got its id."""
        ours = self.driver.answers[token]
        if not isinstance(ours, JoinGroupResponse) or not ours.member_id:
            return
        if ours.member_id not in self.to_kafka:
            assert theirs.member_id.rsplit("-", 5)[0] == ours.member_id.rsplit("-", 1)[0]
            self.to_kafka[ours.member_id] = theirs.member_id
            self.members.append(Known(ours.member_id, self.instances[token]))

    def translated(self, value: Any) -> Any:
        """Return a message with Kafka's member ids in place of the machine's."""
        if isinstance(value, str):
            return self.to_kafka.get(value, value)
        if isinstance(value, bytes):
            return self.to_kafka.get(value.decode("latin-1"), "").encode() or value
        if isinstance(value, tuple):
            return tuple(self.translated(each) for each in value)
        if is_dataclass(value) and not isinstance(value, type):
            changed = {f.name: self.translated(getattr(value, f.name)) for f in fields(value)}
            return replace(value, **changed)
        return value

    def nothing_else_came(self) -> None:
        early = [token for token, each in self.waiting.items() if each.is_answered()]
        assert not early, "\n".join([*self.said, f"Kafka answered {early}"])

    def close(self) -> None:
        for each in self.waiting.values():
            each.socket.close()


def normal(value: Any, known: frozenset[str]) -> Any:
    """Sort what has no order; leave out the broker's load, and ids that no answer has told yet."""
    if isinstance(value, tuple):
        return tuple(sorted((normal(each, known) for each in value), key=repr))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: normal(getattr(value, f.name), known) for f in fields(value)}
        if "throttle_time_ms" in changed:
            changed["throttle_time_ms"] = 0
        if isinstance(value, DescribedGroup):
            changed["authorized_operations"] = 0
        if isinstance(value, DescribedGroupMember) and value.member_id not in known:
            changed["member_id"] = "not told yet"
        return replace(value, **changed)
    return value


class Schedule:
    """A random sequence of requests, right ones and wrong ones."""

    def __init__(self, both: Both, random: Random) -> None:
        self.both = both
        self.random = random
        self.numbers = count(1)

    def run(self, steps: int) -> None:
        acts = [
            (self.join_new, 4),
            (self.join_known, 8),
            (self.sync, 10),
            (self.heartbeat, 4),
            (self.leave, 1),
            (self.commit, 4),
            (self.fetch, 3),
            (self.describe, 3),
            (self.list, 1),
            (self.delete, 1),
            (self.delete_offsets, 1),
        ]
        weights = [weight for _, weight in acts]
        for act, _ in self.random.choices(acts, weights, k=steps):
            if not self.members() and self.random.random() < 0.5:
                act = self.random.choice((self.join_new, self.join_known))
            act()
        self.both.nothing_else_came()

    @property
    def view(self) -> Any:
        return self.both.driver.shard.group(self.both.group_id)

    def version(self, request: type[Request[Any]], least: int = 0) -> int:
        return self.random.randint(max(least, request.api.min_version), request.api.client_version)

    def someone(self) -> Known:
        """A member, mostly one that is there."""
        present = self.view.members if self.view is not None else {}
        known = [each for each in self.both.members if each.member_id in present]
        if known and self.random.random() < 0.9:
            return self.random.choice(known)
        return self.random.choice([*self.both.members, Known("nobody")])

    def generation(self) -> int:
        current = self.view.generation_id if self.view is not None else 0
        return current if self.random.random() < 0.9 else current + self.random.choice((-1, 1, -9))

    def offer(self) -> tuple[JoinGroupRequestProtocol, ...]:
        names = ["range", *self.random.sample(NAMES[1:], self.random.randint(0, 3))]
        self.random.shuffle(names)
        metadata = subscription(*self.random.sample(("a", "b"), self.random.randint(1, 2)))
        if self.random.random() < 0.05:
            names = ["unheard-of"]
        return tuple(JoinGroupRequestProtocol(name, metadata) for name in names)

    def join(self, member_id: str, instance_id: str | None, offer: Any) -> None:
        version = self.version(JoinGroupRequest, 5 if instance_id is not None else 0)
        session_ms = 0 if self.random.random() < 0.02 else 600_000
        self.both.ask(
            JoinGroupRequest(
                group_id=self.both.group_id,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=600_000,
                member_id=member_id,
                group_instance_id=instance_id,
                protocol_type="other" if self.random.random() < 0.03 else "consumer",
                protocols=offer,
                reason="why not" if version >= 8 else None,
            ),
            version,
        )

    def join_new(self) -> None:
        if self.view is not None and len(self.view.members) >= 4:
            return
        instance_id = self.random.choice((None, None, "i-1", "i-2"))
        self.join("", instance_id, self.offer())

    def join_known(self) -> None:
        who = self.someone()
        parked = {m for m, v in self.members().items() if v.waits_for == "join"}
        if who.member_id in parked:
            return  # Kafka never answers the join whose place another takes
        pending = self.view.pending_members if self.view is not None else ()
        if pending and self.random.random() < 0.7:
            who = Known(self.random.choice(pending))
        same = self.members().get(who.member_id)
        offer = self.offer()
        if same is not None and self.random.random() < 0.6:
            offer = tuple(JoinGroupRequestProtocol(*each) for each in same.protocols.items())
        self.join(who.member_id, who.instance_id, offer)

    def members(self) -> dict[str, Any]:
        return dict(self.view.members) if self.view is not None else {}

    def sync(self) -> None:
        who = self.someone()
        leader = self.view.leader_id if self.view is not None else None
        if leader is not None and self.random.random() < 0.4:
            who = next((each for each in self.both.members if each.member_id == leader), who)
        known = self.members().get(who.member_id)
        if known is not None and known.waits_for == "sync":
            return  # as with a join
        version = self.version(SyncGroupRequest, 3)
        named = version >= 5 and self.random.random() < 0.95
        given = [each for each in self.members() if self.random.random() < 0.9]
        self.both.ask(
            SyncGroupRequest(
                group_id=self.both.group_id,
                generation_id=self.generation(),
                member_id=who.member_id,
                group_instance_id=who.instance_id,
                protocol_type="consumer" if named else None,
                protocol_name=(self.view.protocol_name if self.view is not None else None) or "x"
                if named
                else None,
                assignments=tuple(
                    SyncGroupRequestAssignment(each, b"for " + each.encode()[:4]) for each in given
                )
                if who.member_id == leader
                else (),
            ),
            version,
        )

    def heartbeat(self) -> None:
        who = self.someone()
        version = self.version(HeartbeatRequest, 3)
        request = HeartbeatRequest(
            self.both.group_id, self.generation(), who.member_id, who.instance_id
        )
        self.both.ask(request, version)

    def leave(self) -> None:
        members = self.members()
        leader = self.view.leader_id if self.view is not None else None
        leaving = [
            each
            for each in {who.member_id: who for who in (self.someone(), self.someone())}.values()
            # who leads next is a matter of a hash map's order, unless only one is left
            if each.member_id != leader or len(members) <= 2
        ]
        if any(
            each.member_id in members and members[each.member_id].waits_for == "sync"
            for each in leaving
        ):
            return  # Kafka does not answer that sync; we do
        version = self.version(LeaveGroupRequest)
        if version < 3:
            if len(leaving) == 1:
                request = LeaveGroupRequest(self.both.group_id, leaving[0].member_id)
                self.both.ask(request, version)
            return
        by_instance = self.random.random() < 0.3
        self.both.ask(
            LeaveGroupRequest(
                group_id=self.both.group_id,
                members=tuple(
                    MemberIdentity(
                        "" if by_instance and each.instance_id else each.member_id,
                        each.instance_id,
                    )
                    for each in leaving
                ),
            ),
            version,
        )

    def commit(self) -> None:
        who = self.someone()
        simple = self.random.random() < 0.3
        version = self.version(OffsetCommitRequest, 7)
        metadata = self.random.choice(("", None, "m", "é" * 9, "x" * 4097))
        if self.view is None and metadata is not None:
            # refused altogether, it leaves a group in Kafka that no record tells of: not described,
            # and not written when someone joins
            metadata = metadata[:9]
        self.both.ask(
            OffsetCommitRequest(
                group_id=self.both.group_id,
                generation_id_or_member_epoch=-1 if simple else self.generation(),
                member_id="" if simple else who.member_id,
                group_instance_id=None if simple else who.instance_id,
                topics=(
                    OffsetCommitRequestTopic(
                        TOPIC,
                        partitions=tuple(
                            OffsetCommitRequestPartition(
                                index, next(self.numbers), self.random.choice((-1, 3)), metadata
                            )
                            for index in range(self.random.randint(0, PARTITIONS))
                        ),
                    ),
                ),
            ),
            version,
        )

    def fetch(self) -> None:
        version = self.version(OffsetFetchRequest)
        group_id = self.random.choice((self.both.group_id, self.both.group_id, "no-such-group"))
        every = version >= 2 and self.random.random() < 0.3
        indexes = tuple(range(PARTITIONS))
        stable = version >= 7 and self.random.random() < 0.5
        if version >= 8:
            named = (OffsetFetchRequestTopics(TOPIC, partition_indexes=indexes),)
            group = OffsetFetchRequestGroup(group_id, topics=None if every else named)
            request = OffsetFetchRequest(groups=(group,), require_stable=stable)
        else:
            topic = OffsetFetchRequestTopic(TOPIC, indexes)
            request = OffsetFetchRequest(
                group_id, None if every else (topic,), require_stable=stable
            )
        self.both.ask(request, version)

    def describe(self) -> None:
        groups = (self.both.group_id, "no-such-group")
        self.both.ask(DescribeGroupsRequest(groups), self.version(DescribeGroupsRequest))

    def list(self) -> None:
        states = self.random.choice((("stable",), ("EMPTY", "Stable"), ("nonsense",)))
        types = self.random.choice(((), ("Classic",), ("consumer",), ("nonsense",)))
        # the broker is shared: other tests' groups are told apart by a state that only few have
        request = ListGroupsRequest((*states,), types)
        if self.view is None or types not in ((), ("Classic",)):
            return
        listed = Connection(self.both.address, request, 5).receive().groups
        theirs = [each for each in listed if each.group_id == self.view.group_id]
        assert theirs == list(self.both.driver.ask(request, 5).groups), self.both.said

    def delete(self) -> None:
        groups = (self.both.group_id, "no-such-group", self.both.group_id)
        self.both.ask(DeleteGroupsRequest(groups), self.version(DeleteGroupsRequest))

    def delete_offsets(self) -> None:
        index = self.random.randrange(PARTITIONS)
        topic = OffsetDeleteRequestTopic(TOPIC, (OffsetDeleteRequestPartition(index),))
        self.both.ask(OffsetDeleteRequest(self.both.group_id, (topic,)), 0)


@pytest.fixture(scope="module")
def address(kafka_installed: None) -> Iterator[tuple[str, int]]:
    """A broker that takes one request after the other, with a topic to commit for."""
    with LocalKafka(properties={"num.io.threads": "1"}) as kafka:
        kafka.coordinator_of("any")
        host, port = kafka.nodes[0].address("PLAINTEXT").split(":")
        create_topic((host, int(port)))
        yield host, int(port)


def create_topic(place: tuple[str, int]) -> None:
    """Create the topic, and wait until commits for it are taken: the coordinator learns of it a little later."""
    request = CreateTopicsRequest((CreatableTopic(TOPIC, PARTITIONS, 1),), timeout_ms=10_000)
    (created,) = Connection(place, request, 5).receive().topics
    assert created.error_code == ErrorCode.NONE
    topic = OffsetCommitRequestTopic(TOPIC, partitions=(OffsetCommitRequestPartition(0, 1),))
    commit = OffsetCommitRequest("warm-up", topics=(topic,))

    def error() -> int:
        return int(Connection(place, commit, 7).receive().topics[0].partitions[0].error_code)

    eventually(error, ErrorCode.NONE)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_schedule_gets_the_same_answers(
    seed: int, address: tuple[str, int], group_id: str
) -> None:
    both = Both(address, group_id)
    try:
        Schedule(both, Random(seed)).run(STEPS)
    finally:
        both.close()
    assert len(both.driver.answers) > STEPS // 3
