"""Test what a member asks its coordinator for its caller, in virtual time and on an embedded broker."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk import (
    OffsetAndMetadata,
    TopicPartition,
)
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    CommitFailedError,
    CoordinatorNotAvailableError,
    DisconnectedError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    MemberClosedError,
    RebalanceInProgressError,
    RequestTimeoutError,
)
from groupsdk.member.events import CallerRequest, LeaveRequested, RejoinRequested
from groupsdk.member.state import MemberState
from groupsdk.wire.messages.group_admin import ListGroupsRequest, ListGroupsResponse
from groupsdk.wire.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.drivers.virtual import Bench
from tests.member.driving import MEMBER_ID, Driver, joined
from tests.support.plain_workers import AsyncPlainWorker, PlainWorker


PLACE = TopicPartition("group-calls", 3)
AT = {PLACE: OffsetAndMetadata(7, metadata="note")}
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2}


@pytest.fixture
def bench(mocker: MockerFixture) -> Bench:
    """A member that waits for its answers in virtual time, too."""
    bench = Bench(**QUICK)
    assert bench.member.ensure_active_group(5)

    def wait(answers: list[Future[Any]], timeout_s: float) -> None:
        if not answers[0].done():
            bench.host.advance(int(timeout_s * 1000))

    mocker.patch("groupsdk.drivers.threads.member.futures").wait.side_effect = wait
    mocker.patch("groupsdk.drivers.threads.member.time").sleep.side_effect = lambda seconds: (
        bench.host.advance(max(1, int(seconds * 1000)))
    )
    return bench


def committed(code: int = 0) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(PLACE.partition, code)
    return OffsetCommitResponse(
        topics=(OffsetCommitResponseTopic(PLACE.topic, partitions=(partition,)),)
    )


def fetched(offset: int = -1, code: int = 0) -> OffsetFetchResponse:
    each = OffsetFetchResponsePartitions(PLACE.partition, offset, -1, "", code)
    topic = OffsetFetchResponseTopics(PLACE.topic, partitions=(each,))
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup("g", (topic,), 0),))


def test_a_commit_carries_generation_and_member_id(bench: Bench) -> None:
    bench.host.scripts[OffsetCommitRequest].append(committed())
    bench.member.commit_offsets(AT)
    (request,) = bench.requests(OffsetCommitRequest)
    generation = bench.member.generation()
    assert request.generation_id_or_member_epoch == generation.generation_id
    assert request.member_id == MEMBER_ID
    assert request.topics[0].partitions[0].committed_offset == 7
    bench.member.commit_offsets({})
    assert len(bench.requests(OffsetCommitRequest)) == 1


def test_a_passing_error_is_tried_again_and_another_is_raised(bench: Bench) -> None:
    moved = committed(ErrorCode.NOT_COORDINATOR.value)
    bench.host.scripts[OffsetCommitRequest].extend([moved, DisconnectedError("reset"), committed()])
    bench.member.commit_offsets(AT)
    assert len(bench.requests(OffsetCommitRequest)) == 3
    bench.host.scripts[OffsetCommitRequest].append(
        committed(ErrorCode.OFFSET_METADATA_TOO_LARGE.value)
    )
    with pytest.raises(BrokerError, match="group-calls-3"):
        bench.member.commit_offsets(AT)
    bench.host.scripts[OffsetCommitRequest].extend([moved] * 100)
    with pytest.raises(CoordinatorNotAvailableError):
        bench.member.commit_offsets(AT, timeout=0.05)
    bench.host.scripts[OffsetCommitRequest].clear()
    bench.host.scripts[OffsetCommitRequest].append(None)
    with pytest.raises(RequestTimeoutError, match="within"):
        bench.member.commit_offsets(AT, timeout=0.01)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceIdError),
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgressError),
    ],
)
def test_group_error_of_a_commit_is_raised_and_heeded(
    bench: Bench, code: ErrorCode, error: type[Exception]
) -> None:
    bench.host.scripts[OffsetCommitRequest].append(committed(code.value))
    with pytest.raises(error):
        bench.member.commit_offsets(AT)
    if error is FencedInstanceIdError:
        with pytest.raises(FencedInstanceIdError):
            bench.member.poll()
    else:
        assert bench.member.snapshot().rejoin_pending


def test_nothing_is_committed_without_a_generation_or_within_a_rebalance(bench: Bench) -> None:
    bench.host.scripts[JoinGroupRequest].append(None)
    bench.member.request_rejoin("test")
    bench.member.poll(0.1)
    assert bench.member.snapshot().state is MemberState.PREPARING_REBALANCE
    with pytest.raises(RebalanceInProgressError, match="poll first"):
        bench.member.commit_offsets(AT)
    with pytest.raises(RebalanceInProgressError):  # the connection is taken
        bench.member.describe_group()
    bench.member.leave_group("test")
    with pytest.raises(CommitFailedError, match="out of that generation"):
        bench.member.commit_offsets(AT)
    assert bench.requests(OffsetCommitRequest) == []


def test_a_retry_never_goes_out_under_a_later_generation(
    bench: Bench, mocker: MockerFixture
) -> None:
    def come_back(_: float) -> None:
        bench.member.leave_group("test")
        bench.host.scripts[JoinGroupRequest].append(joined(2))
        assert bench.member.ensure_active_group(5)

    mocker.patch("groupsdk.drivers.threads.member.time").sleep.side_effect = come_back
    loading = committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.value)
    bench.host.scripts[OffsetCommitRequest].extend([loading, committed()])
    with pytest.raises(CommitFailedError, match="generation=1"):
        bench.member.commit_offsets(AT)
    assert bench.member.generation().generation_id == 2
    assert len(bench.requests(OffsetCommitRequest)) == 1


def test_fetch_of_unstable_offsets_is_retried(bench: Bench) -> None:
    unstable = fetched(code=ErrorCode.UNSTABLE_OFFSET_COMMIT.value)
    bench.host.scripts[OffsetFetchRequest].extend([unstable, fetched(9)])
    assert bench.member.committed_offsets([PLACE, PLACE]) == {PLACE: OffsetAndMetadata(9)}
    bench.host.scripts[OffsetFetchRequest].append(fetched())
    assert bench.member.committed_offsets([PLACE]) == {PLACE: None}
    assert bench.member.committed_offsets([]) == {}
    bench.host.scripts[OffsetFetchRequest].append(unstable)
    with pytest.raises(RequestTimeoutError, match="still open"):
        bench.member.committed_offsets([PLACE], timeout=0)


def test_a_description_has_the_error_of_the_group(bench: Bench) -> None:
    refused = DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED.value, group_id="g")
    bench.host.scripts[DescribeGroupsRequest].append(DescribeGroupsResponse(groups=(refused,)))
    with pytest.raises(GroupAuthorizationError, match="DescribeGroups of group 'g'"):
        bench.member.describe_group()
    bench.host.scripts[DescribeGroupsRequest].append(DescribeGroupsResponse())
    with pytest.raises(BrokerError, match="left the group out"):
        bench.member.describe_group()


def test_a_description_that_is_on_its_way_is_no_part_of_a_rebalance() -> None:
    driver = Driver()
    driver.join()
    driver.handle(CallerRequest(1, DescribeGroupsRequest(groups=("g",))))
    assert not driver.view.joining
    driver.handle(RejoinRequested("test"))
    driver.poll()
    assert driver.view.call is not None, "it waited for the answer"
    driver.handle(LeaveRequested("test"))
    driver.disconnect()
    assert isinstance(driver.told[1], DisconnectedError), "who asked was never told"


# On a broker.


class Worker(PlainWorker):
    """Commits where Java's subclasses do: before it gives up and after it takes up."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.seen: list[OffsetAndMetadata | None] = []

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        if generation > 0:
            self.commit_offsets({PLACE: OffsetAndMetadata(generation)})

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.seen.append(self.committed_offsets([PLACE])[PLACE])

    @override
    def on_leave_prepare(self) -> None:
        self.commit_offsets({PLACE: OffsetAndMetadata(99)})


class AsyncWorker(AsyncPlainWorker):
    """The same for asyncio."""

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        await self.commit_offsets({PLACE: OffsetAndMetadata(generation)})


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a broker with the topic, of each kind."""
    if request.param == "kafka":
        kafka = request.getfixturevalue("kafka").bootstrap_servers
        admin = AdminClient({"bootstrap.servers": kafka})
        with suppress(KafkaException):  # it is there already
            admin.create_topics([NewTopic(PLACE.topic, 4, 1)])[PLACE.topic].result()
        yield kafka
        return
    with EmbeddedBroker(topics={PLACE.topic: 4}) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_callbacks_may_commit_and_read(servers: str, group_id: str, heartbeat: Any) -> None:
    with Worker(bootstrap_servers=servers, group_id=group_id, heartbeat=heartbeat) as worker:
        assert worker.committed_offsets([PLACE]) == {PLACE: None}, "it needs no membership"
        assert worker.ensure_active_group(20)
        worker.request_rejoin("test")
        while worker.generation().generation_id < 2:
            worker.poll(1)
        assert worker.seen == [None, OffsetAndMetadata(1)]
        description = worker.describe_group()
        assert (description.state, description.protocol_type) == ("Stable", "work")
        assert description.protocol_name == "v0"
        (member,) = description.members
        assert (member.member_id, member.metadata, member.assignment) == (
            worker.member_id(),
            b"hello",
            b"work",
        )
        listed = worker.ask(ListGroupsRequest()).result(20)
        assert isinstance(listed, ListGroupsResponse)
        assert group_id in [each.group_id for each in listed.groups]
        with pytest.raises(TypeError, match="LeaveGroupRequest is the membership's own"):
            worker.ask(LeaveGroupRequest(group_id))
        worker.leave_group("test")
        assert worker.committed_offsets([PLACE]) == {PLACE: OffsetAndMetadata(99)}
        assert worker.describe_group().state == "Empty"
        with pytest.raises(CommitFailedError):
            worker.commit_offsets(AT)
        assert worker.ensure_active_group(20)
    with pytest.raises(MemberClosedError):
        worker.commit_offsets(AT)


async def test_the_same_for_asyncio(servers: str, group_id: str) -> None:
    async with AsyncWorker(bootstrap_servers=servers, group_id=group_id) as worker:
        assert await worker.ensure_active_group(20)
        assert await worker.committed_offsets([PLACE]) == {PLACE: OffsetAndMetadata(1)}
        assert len((await worker.describe_group()).members) == 1
        with pytest.raises(BrokerError):
            await worker.commit_offsets({PLACE: OffsetAndMetadata(1, metadata="x" * 5_000)})
