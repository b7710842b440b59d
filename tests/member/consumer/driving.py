"""Drive one machine of the consumer protocol by hand, in virtual time.

There is no group: the test makes each answer, also those that no coordinator would give.
"""

from random import Random
from typing import Any
from uuid import UUID

from groupsdk.assignment import TopicPartition
from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.error_code import ErrorCode
from groupsdk.member.actions import (
    CompleteJoin,
    Node,
    PrepareJoin,
)
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.consumer.membership import ConsumerMembership
from groupsdk.member.consumer.state import ConsumerMemberState, ConsumerMemberView
from groupsdk.member.events import (
    CallFailed,
    JoinDelivered,
    JoinPrepared,
)
from groupsdk.settings.config import ConsumerMemberConfig
from groupsdk.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from groupsdk.wire.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from groupsdk.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from groupsdk.wire.schema import Response
from tests.member.driving import MachineDriver


OTHER_NODE = Node(2, "broker-2", 9092)
T, U = UUID(int=1), UUID(int=2)
NAMES = {T: "t", U: "u"}
SETTINGS: dict[str, Any] = {
    "bootstrap_servers": "broker-1:9092",
    "group_id": "g",
    "max_poll_interval_ms": 60_000,
    "rebalance_timeout_ms": 60_000,
    "request_timeout_ms": 40_000,
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 1_000,
}
INTERVAL_MS = 5_000
SESSION_MS = 45_000


class Member(MachineDriver):
    """A member of the consumer protocol, with a caller that does what it is told."""

    def __init__(self, *, topics: tuple[str, ...] = ("t",), **settings: Any) -> None:
        self.config = ConsumerMemberConfig(**(SETTINGS | settings))
        self.membership = ConsumerMembership(self.config, Random(0))
        super().__init__(self.membership)
        self.subscription = HeartbeatSubscription(frozenset(topics))
        self.session_ms: int | None = SESSION_MS
        """What the broker tells of the session; None: it does not answer that."""
        self.lost = 0
        """How often the caller heard that it has nothing."""
        self.taken: list[set[TopicPartition]] = []
        """The assignments that the caller took up."""

    # What the caller does.

    def prepare(self) -> None:
        call = self.call(PrepareJoin)
        self.lost += call.run_callback
        protocols = tuple(self.subscription.protocols())
        self.handle(JoinPrepared(call.call_id, "consumer", protocols))

    def take_up(self) -> None:
        call = self.call(CompleteJoin)
        share = decode_assignment(call.assignment)
        self.taken.append(set(share))
        self.handle(JoinDelivered(call.call_id))

    def fail_call(self) -> None:
        assert self.view.call is not None
        self.handle(CallFailed(self.view.call.call_id, "ValueError"))

    # Whole passages.

    def start(self) -> ConsumerGroupHeartbeatRequest:
        """Bring a new member to the point where its join is sent."""
        self.poll()
        self.found()
        self.prepare()
        return self.heartbeats[-1]

    def assigned(self, epoch: int = 2, **partitions: tuple[int, ...]) -> None:
        """Answer a heartbeat with an assignment, and any question for names."""
        self.answer(beaten(epoch, **partitions))
        self.name()

    def name(self) -> None:
        """Answer what is asked for names and for the session timeout."""
        for send in list(self.outstanding):
            if send not in self.outstanding:
                continue
            if isinstance(send.request, MetadataRequest):
                self.answer(names(*(each.topic_id for each in send.request.topics or ())))
            elif isinstance(send.request, DescribeConfigsRequest) and self.session_ms is not None:
                self.answer(session(self.session_ms))

    def join(self, epoch: int = 2, **partitions: tuple[int, ...]) -> None:
        """Bring a new member into the group, and have its assignment acknowledged."""
        self.start()
        self.assigned(epoch, **partitions)
        self.take_up()
        self.answer(beaten(epoch))
        assert self.state() is ConsumerMemberState.STABLE

    def beat(self) -> ConsumerGroupHeartbeatRequest:
        """Let time pass until the next heartbeat goes out."""
        before = len(self.heartbeats)
        for _ in range(40):
            if len(self.heartbeats) > before:
                return self.heartbeats[-1]
            assert self.wake_at_ms is not None
            self.advance(max(0, self.wake_at_ms - self.now_ms))
        raise AssertionError("no heartbeat")

    def hear(self, response: Response) -> None:
        """Let time pass until the next heartbeat goes out, and answer it."""
        self.beat()
        self.answer(response)

    # What can be seen.

    @property
    def view(self) -> ConsumerMemberView:
        view = self.machine.view
        assert isinstance(view, ConsumerMemberView)
        return view

    def state(self) -> ConsumerMemberState:
        return self.view.consumer_state

    @property
    def heartbeats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return self.sent(ConsumerGroupHeartbeatRequest)

    @property
    def beat_times_ms(self) -> list[int]:
        return self.sent_at(ConsumerGroupHeartbeatRequest)

    @property
    def epoch(self) -> int:
        return self.view.generation.generation_id

    @property
    def member_id(self) -> str:
        return self.view.generation.member_id


def in_group(**settings: Any) -> Member:
    """Return a member that has t-0, in epoch 2."""
    member = Member(**settings)
    member.join(2, t=(0,))
    return member


def owned(**partitions: tuple[int, ...]) -> tuple[TopicPartitions, ...]:
    """Partitions by the names of topics, as heartbeats carry them."""
    ids = {name: topic_id for topic_id, name in NAMES.items()}
    return tuple(
        TopicPartitions(topic_id=ids[name], partitions=numbers)
        for name, numbers in partitions.items()
        if numbers
    )


def beaten(epoch: int = 2, **partitions: tuple[int, ...]) -> ConsumerGroupHeartbeatResponse:
    """An answer to a heartbeat; with keywords it has an assignment, of which none may be empty."""
    return ConsumerGroupHeartbeatResponse(
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=Assignment(topic_partitions=owned(**partitions)) if partitions else None,
    )


def refused(code: int, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """An answer to a heartbeat with an error."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def names(*topic_ids: UUID, unknown: tuple[UUID, ...] = ()) -> MetadataResponse:
    """An answer with the names of topics."""
    found = [MetadataResponseTopic(topic_id=each, name=NAMES[each]) for each in topic_ids]
    lacking = [
        MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=each, name=None)
        for each in unknown
    ]
    return MetadataResponse(topics=(*found, *lacking))


def session(timeout_ms: int) -> DescribeConfigsResponse:
    """An answer that tells how long a session lasts."""
    value = DescribeConfigsResourceResult(name="consumer.session.timeout.ms", value=str(timeout_ms))
    result = DescribeConfigsResult(resource_type=32, resource_name="g", configs=(value,))
    return DescribeConfigsResponse(results=(result,))
