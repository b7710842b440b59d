"""Groups whose members run on threads of the test, whatever their kind, and what each kind owes under a fault."""

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from typing_extensions import override

from groupsdk.consumer import GroupConsumer
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError
from groupsdk.testing import LocalKafka
from groupsdk.types import Generation
from groupsdk.wire.schema import ApiKey
from tests.kafka.migrating_group import look
from tests.support import consumers
from tests.support.consumers import DrivenConsumer, Group, OwnerWitness
from tests.support.groups import describe_group
from tests.support.proxy import FaultProxy
from tests.support.topics import create_topic
from tests.support.workers import Driven, RecordingMember, Witness, await_stable, eventually


PARTITIONS = 4

DrivenT = TypeVar("DrivenT", Driven, DrivenConsumer)


class DrivenGroup(ABC, Generic[DrivenT]):
    """A group of one kind; its members go straight to the broker unless they are given another way.

    Attributes:
        leaving: the API by which a member leaves.
        kind: "member", or a consumer's group protocol.
    """

    kind: str
    heartbeat = ApiKey.HEARTBEAT
    leaving = ApiKey.LEAVE_GROUP

    @abstractmethod
    def member(self, way: FaultProxy | None = None, **settings: Any) -> DrivenT:
        """Return a member that joins once it is entered."""

    @contextlib.contextmanager
    def pair(self, way: FaultProxy | None = None) -> Iterator[tuple[DrivenT, DrivenT]]:
        """Two members that share the work and raise nothing, the second over `way`: no two act on the same at once."""
        with (
            self.member() as near,
            self.member(way) as far,
            self.witness(near, far) as witness,
        ):
            self.await_shared(near, far)
            yield near, far
            witness.check()
        for driven in near, far:
            assert not [each for each in driven.errors if not self._is_of_loading(each)]

    def _is_of_loading(self, error: BaseException) -> bool:
        """Kafka may answer so a heartbeat of KIP-848 while it loads the group; the caller is told, and goes on."""
        return (
            self.heartbeat is not ApiKey.HEARTBEAT
            and isinstance(error, BrokerError)
            and error.code == ErrorCode.UNKNOWN_SERVER_ERROR
        )

    @contextlib.contextmanager
    def undisturbed(self, *driven: DrivenT) -> Iterator[None]:
        """Check that the members keep what they have through the fault that the with block makes, and are told nothing."""
        self.await_rest(*driven)
        before = [(self.acts_under(each), list(self.told(each))) for each in driven]
        yield
        self.await_beats(*driven)
        assert [(self.acts_under(each), list(self.told(each))) for each in driven] == before

    def await_doubt(self, *driven: DrivenT) -> None:
        """Wait until each takes it for possible that it is out."""
        for each in driven:
            eventually(partial(self._doubts, each))

    def _doubts(self, driven: DrivenT) -> bool:
        return not self.acts_under(driven)

    def await_beats(self, *driven: DrivenT) -> None:
        """Wait until the coordinator has answered each some more heartbeats, and all is well."""
        subjects = [self.subject(each) for each in driven]
        wanted = [each.metrics()["heartbeat-total"] + 3 for each in subjects]
        eventually(
            lambda: all(
                each.metrics()["heartbeat-total"] >= beats
                and each.snapshot().stable
                and each.snapshot().trouble is None
                for each, beats in zip(subjects, wanted, strict=True)
            ),
            lambda: [each.snapshot() for each in subjects],
        )

    def await_coordinator(self, driven: DrivenT, node_id: int) -> None:
        """Wait until the member's coordinator is this node."""
        subject = self.subject(driven)
        eventually(
            lambda: f"(node {node_id})" in (subject.snapshot().coordinator or ""), subject.snapshot
        )

    @abstractmethod
    def witness(self, *driven: DrivenT) -> Any:
        """Return a context manager whose `check` fails if two ever acted on the same at once."""

    @abstractmethod
    def subject(self, driven: DrivenT) -> RecordingMember | GroupConsumer:
        """Return the member itself."""

    @abstractmethod
    def await_shared(self, *driven: DrivenT) -> None:
        """Wait until these, and no others, share the work and may act."""

    @abstractmethod
    def await_rest(self, *driven: DrivenT) -> None:
        """Wait until no rebalance is left over."""

    @abstractmethod
    def acts_under(self, driven: DrivenT) -> Generation | frozenset[int] | None:
        """Return what it may act on or under now; false if nothing."""

    @abstractmethod
    def told(self, driven: DrivenT) -> list[Any]:
        """Return the calls of its callbacks."""

    @abstractmethod
    def was_lost(self, driven: DrivenT) -> bool:
        """Return whether it was told that all is lost, before its newest assignment if it has one."""

    @abstractmethod
    def check_joined_once(self, driven: DrivenT) -> None:
        """Check that it was given one assignment, and lost none."""

    @abstractmethod
    def check_contract(self, driven: DrivenT) -> None:
        """Check what the contract says of any history of callbacks."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether the coordinator has no members of the group."""


class MemberGroup(DrivenGroup[Driven]):
    """Members with work of their own."""

    kind = "member"

    def __init__(self, kafka: LocalKafka, group_id: str, session_ms: int) -> None:
        self._address = kafka.bootstrap_servers.split(",")[0]
        self._settings: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group_id,
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": 100,
            "socket_connection_setup_timeout_ms": 500,
            "retry_backoff_ms": 20,
            "retry_backoff_max_ms": 200,
        }

    @override
    def member(self, way: FaultProxy | None = None, **settings: Any) -> Driven:
        if way is not None:
            settings["bootstrap_servers"] = way.bootstrap_servers
        return Driven(RecordingMember(**(self._settings | settings)))

    @override
    def witness(self, *driven: Driven) -> Witness:
        return Witness(*(each.member for each in driven))

    @override
    def subject(self, driven: Driven) -> RecordingMember:
        return driven.member

    @override
    def await_shared(self, *driven: Driven) -> None:
        await_stable(*driven)

    @override
    def await_rest(self, *driven: Driven) -> None:
        await_stable(*driven)

    @override
    def acts_under(self, driven: Driven) -> Generation | frozenset[int] | None:
        return driven.member.generation_if_stable()

    @override
    def told(self, driven: Driven) -> list[Any]:
        return driven.member.callbacks

    @override
    def was_lost(self, driven: Driven) -> bool:
        prepared = driven.member.named("on_join_prepare")
        return len(prepared) > 1 and (prepared[-1].generation, prepared[-1].member_id) == (-1, "")

    @override
    def check_joined_once(self, driven: Driven) -> None:
        assert len(driven.member.named("on_join_complete")) == 1
        assert len(driven.member.named("on_join_prepare")) == 1

    @override
    def check_contract(self, driven: Driven) -> None:
        """Check that a prepare comes before each complete, and that generations grow."""
        callbacks = driven.member.callbacks
        names = [each.name for each in callbacks if each.name.startswith("on_join")]
        # Two prepares in a row: what was prepared for never came, but it is lost again.
        assert ("on_join_complete", "on_join_complete") not in itertools.pairwise(names), callbacks
        completed = [each.generation for each in driven.member.named("on_join_complete")]
        assert completed == sorted(set(completed)), callbacks

    @override
    def is_empty(self) -> bool:
        return describe_group(self._address, str(self._settings["group_id"])).state == "Empty"


class ConsumerGroup(DrivenGroup[DrivenConsumer]):
    """Consumers of a topic of the group's own."""

    def __init__(
        self, protocol: str, kafka: LocalKafka, group_id: str, session_ms: int, **more: Any
    ) -> None:
        self.kind = protocol
        if protocol == "consumer":
            self.heartbeat = self.leaving = ApiKey.CONSUMER_GROUP_HEARTBEAT
        servers, topic = kafka.bootstrap_servers, f"t-{group_id}"
        create_topic(servers, topic, PARTITIONS, len(kafka.nodes))
        address = servers.split(",")[0]
        self.group = Group(
            protocol, group_id, topic, servers, address, session_ms, more=more
        ).configure()

    @override
    def member(self, way: FaultProxy | None = None, **settings: Any) -> DrivenConsumer:
        if way is not None:
            settings["bootstrap_servers"] = way.bootstrap_servers
        return self.group.consumer(**settings)

    @override
    def witness(self, *driven: DrivenConsumer) -> OwnerWitness:
        return OwnerWitness(*driven)

    @override
    def subject(self, driven: DrivenConsumer) -> GroupConsumer:
        return driven.consumer

    @override
    def await_shared(self, *driven: DrivenConsumer) -> None:
        consumers.await_shared(PARTITIONS, *driven)

    @override
    def await_rest(self, *driven: DrivenConsumer) -> None:
        consumers.await_rest(*driven)

    @override
    def acts_under(self, driven: DrivenConsumer) -> Generation | frozenset[int] | None:
        return driven.acts_on

    @override
    def told(self, driven: DrivenConsumer) -> list[Any]:
        return driven.told

    @override
    def was_lost(self, driven: DrivenConsumer) -> bool:
        return bool(driven.heard("lost"))

    @override
    def check_joined_once(self, driven: DrivenConsumer) -> None:
        assert driven.heard("assigned") == [frozenset(range(PARTITIONS))]
        assert not driven.heard("revoked")
        assert not driven.heard("lost")

    @override
    def check_contract(self, driven: DrivenConsumer) -> None:
        """Check that a partition is given only to one that does not have it, and taken only from one that has."""
        held: frozenset[int] = frozenset()
        for name, given in list(driven.told):
            assert not held & given if name == "assigned" else given <= held, driven.told
            held = held | given if name == "assigned" else held - given

    @override
    def is_empty(self) -> bool:
        return not look(self.group.address, self.group.group_id).shares


AnyGroup = DrivenGroup[Any]


def driven_group(
    kind: str, kafka: LocalKafka, group_id: str, session_ms: int, **more: Any
) -> AnyGroup:
    """Make a group of one kind, "member" or a consumer's protocol; `more` are settings of consumers, in Kafka's spelling."""
    if kind == "member":
        return MemberGroup(kafka, group_id, session_ms)
    return ConsumerGroup(kind, kafka, group_id, session_ms, **more)
