"""Tests the shard as its clients see it."""

import logging

import pytest

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    CoordinatorShard,
    ProducerStamp,
    RequestContext,
)
from groupsdk.broker.coordinator.transactions.metadata import TransactionState as S
from groupsdk.broker.coordinator.transactions.producer_ids import (
    MAX_PRODUCER_ID,
    ProducerIdAllocator,
)
from groupsdk.broker.coordinator.transactions.shard import TransactionCoordinatorShard
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode as E
from groupsdk.wire.coordinator_records.partitioner import partition_for
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TopicData,
)
from tests.broker.coordinator.transactions.driving import TV1, TV2, Coordinator, MemoryBlockStore


@pytest.fixture
def broker() -> Coordinator:
    return Coordinator()


def with_epoch(broker: Coordinator, epoch: int) -> tuple[int, int]:
    """Initializes producer "x" and lifts its epoch, by loading a log in which it has that one."""
    producer_id, _ = broker.producer()
    record = broker.log[-1]
    assert record.value is not None
    value = record.value[:10] + epoch.to_bytes(2) + record.value[12:]
    broker.log.append(record._replace(value=value))
    broker.restart()
    assert broker.view().producer_epoch == epoch
    return producer_id, epoch


def test_transaction_coordinator_shard_is_a_coordinator_shard() -> None:
    ids = ProducerIdAllocator(MemoryBlockStore())
    shard: CoordinatorShard = TransactionCoordinatorShard(1, TransactionConfig(), ids)
    shard.replay_marker(ProducerStamp(1, 1), committed=True)  # means nothing here
    with pytest.raises(
        TypeError, match="HeartbeatRequest is not a request for a transaction coordinator"
    ):
        Coordinator().send(HeartbeatRequest(), 0)


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_beginning_to_end(
    broker: Coordinator, version: int, commit: bool
) -> None:
    producer = broker.producer()
    assert producer == (0, 0)
    for _ in range(3):
        assert broker.add(producer, 0, 1) is E.NONE
        assert broker.add(producer, 1, 2) is E.NONE
        written = len(broker.log)
        assert broker.add(producer, 2, 0) is E.NONE
        assert len(broker.log) == written, "what is there already is not written again"
        assert broker.add_offsets(producer) is E.NONE
        assert broker.view().partitions[0] == ("__consumer_offsets", partition_for("g", 50))
        response = broker.end(producer, commit=commit, version=version)
        assert response.error_code == E.NONE
        following = (response.producer_id, response.producer_epoch)
        assert following == (0, producer[1] + (version == TV2))
        # the reply comes before the markers; who is fast has to wait
        assert broker.add(following, 0) is E.CONCURRENT_TRANSACTIONS
        assert broker.init().error_code == E.CONCURRENT_TRANSACTIONS
        assert broker.commit(following, version) is E.CONCURRENT_TRANSACTIONS
        broker.write_markers()
        assert broker.state() is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
        # the same request again
        assert broker.end(producer, commit=commit, version=version) == response
        opposite = broker.end(producer, commit=not commit, version=version)
        assert opposite.error_code == E.INVALID_TXN_STATE
        producer = following
    for markers in broker.written.values():
        assert len(markers) == 3
        assert {marker.committed for marker in markers} == {commit}


def test_markers_carry_the_epoch_that_comes_after(broker: Coordinator) -> None:
    producer = broker.producer()
    broker.add(producer, 0)
    broker.commit(producer, TV1)
    assert broker.markers[0].producer_epoch == 0
    broker.write_markers()
    broker.add(producer, 0)
    broker.commit(producer, TV2)
    assert broker.markers[0].producer_epoch == 1


# InitProducerId


def test_without_a_transactional_id_nothing_is_kept(broker: Coordinator) -> None:
    assert broker.producer(None) == (0, 0)
    assert broker.producer(None, timeout_ms=-5) == (1, 0)
    assert broker.log == []
    assert broker.init(None, producer_id=5).error_code == E.INVALID_REQUEST


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"transactional_id": ""}, E.INVALID_REQUEST),
        ({"producer_id": 5}, E.INVALID_REQUEST),
        ({"producer_epoch": 5}, E.INVALID_REQUEST),
        ({"timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_init_producer_id_with_bad_fields_is_refused_and_writes_nothing(
    broker: Coordinator, options: dict[str, object], error: E
) -> None:
    response = broker.init(**options)  # type: ignore[arg-type]  # a table of many types
    assert (response.error_code, response.producer_id, response.producer_epoch) == (error, -1, -1)
    assert broker.log == []


def test_each_start_of_a_producer_fences_the_one_before(broker: Coordinator) -> None:
    first = broker.producer()
    second = broker.producer()
    assert (first, second) == ((0, 0), (0, 1))
    assert broker.add(first, 0) is E.PRODUCER_FENCED
    assert broker.add(first, 0, version=1) is E.INVALID_PRODUCER_EPOCH
    assert broker.add_offsets(first) is E.PRODUCER_FENCED
    assert broker.add_offsets(first, version=1) is E.INVALID_PRODUCER_EPOCH
    assert broker.commit(first) is E.PRODUCER_FENCED
    assert broker.end(first, version=1).error_code == E.INVALID_PRODUCER_EPOCH
    assert broker.init(producer_id=0, producer_epoch=0).error_code == E.PRODUCER_FENCED
    fenced = broker.init(producer_id=0, producer_epoch=0, version=3)
    assert fenced.error_code == E.INVALID_PRODUCER_EPOCH
    assert broker.add(second, 0) is E.NONE


@pytest.mark.parametrize("version", [1, 2])
def test_a_new_producer_aborts_what_the_old_one_left_open(version: int) -> None:
    broker = Coordinator(TransactionConfig(transaction_version=version))
    old = broker.producer()
    broker.add(old, 0)
    response = broker.init()
    assert (response.error_code, response.producer_id, response.producer_epoch) == (
        *(E.CONCURRENT_TRANSACTIONS, -1, -1),
    )
    assert broker.state() is S.PREPARE_ABORT
    assert broker.init().error_code == E.CONCURRENT_TRANSACTIONS
    assert broker.add(old, 0) is E.PRODUCER_FENCED
    broker.write_markers()
    assert [marker.committed for marker in broker.written["t", 0]] == [False]
    # the epoch was raised by the fence, and is raised once more for the new producer
    assert broker.producer() == (0, 2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_fence_that_could_not_be_written(version: int) -> None:
    broker = Coordinator(TransactionConfig(transaction_version=version))
    old = broker.producer()
    broker.add(old, 0)
    broker.failing = E.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert broker.init().error_code == E.COORDINATOR_NOT_AVAILABLE
    assert broker.state() is S.ONGOING
    assert broker.view().producer_epoch == (1 if version == 1 else 0)
    broker.failing = None
    assert broker.init().error_code == E.CONCURRENT_TRANSACTIONS
    broker.write_markers()
    assert broker.producer() == (0, 2)


def test_a_producer_goes_on_after_an_error(broker: Coordinator) -> None:
    producer_id, epoch = broker.producer()
    bumped = broker.producer(producer_id=producer_id, producer_epoch=epoch)
    assert bumped == (producer_id, epoch + 1)
    # the answer was lost: the same once more, though with a record
    records = len(broker.log)
    assert broker.producer(producer_id=producer_id, producer_epoch=epoch) == bumped
    assert len(broker.log) == records + 1
    assert broker.producer() == (producer_id, epoch + 2)
    late = broker.init(producer_id=producer_id, producer_epoch=epoch)
    assert late.error_code == E.PRODUCER_FENCED


def test_producer_with_a_used_up_epoch_gets_another_id(broker: Coordinator) -> None:
    producer_id, epoch = with_epoch(broker, 32_765)
    last = broker.producer(producer_id=producer_id, producer_epoch=epoch)
    assert last == (producer_id, 32_766)
    rotated = broker.producer(producer_id=producer_id, producer_epoch=32_766)
    assert rotated == (1_000, 0)
    assert broker.producer(producer_id=producer_id, producer_epoch=32_766) == rotated
    assert broker.add(last, 0) is E.INVALID_PRODUCER_ID_MAPPING
    assert broker.add(rotated, 0) is E.NONE


@pytest.mark.parametrize("version", [1, 2])
def test_the_last_producer_of_an_id_can_still_be_fenced(version: int) -> None:
    broker = Coordinator(TransactionConfig(transaction_version=version))
    last = with_epoch(broker, 32_766)
    assert broker.add(last, 0) is E.NONE
    assert broker.init().error_code == E.CONCURRENT_TRANSACTIONS
    assert broker.markers[0].producer_epoch == 32_767
    broker.write_markers()
    view = broker.view()
    if version == 1:
        assert (view.producer_id, view.producer_epoch) == (0, 32_767)
        assert broker.producer() == (1_000, 0)
    else:
        assert (view.producer_id, view.producer_epoch) == (1_000, 0)
        assert broker.producer() == (1_000, 1)


def test_the_end_at_the_last_epoch_gives_the_next_producer_id(broker: Coordinator) -> None:
    last = with_epoch(broker, 32_766)
    broker.add(last, 0)
    response = broker.end(last, version=TV2)
    assert (response.producer_id, response.producer_epoch) == (1_000, 0)
    assert (broker.markers[0].producer_id, broker.markers[0].producer_epoch) == (0, 32_767)
    assert broker.view().producer_epoch == 32_767
    broker.write_markers()
    assert (broker.view().producer_id, broker.view().producer_epoch) == (1_000, 0)
    assert broker.end(last, version=TV2) == response
    assert broker.add((1_000, 0), 0) is E.NONE


def test_a_next_producer_id_that_a_crash_lost_is_taken_anew(broker: Coordinator) -> None:
    last = with_epoch(broker, 32_766)
    broker.add(last, 0)
    told = broker.end(last, version=TV2)
    assert (told.producer_id, told.producer_epoch) == (1_000, 0)
    broker.store, store = MemoryBlockStore(MAX_PRODUCER_ID), broker.store
    broker.restart()
    broker.write_markers()
    broker.wait(10_000)
    assert broker.state() is S.PREPARE_COMMIT, "it waits for an id"
    broker.store = store
    broker.restart()
    broker.write_markers()
    assert (broker.view().producer_id, broker.view().producer_epoch) == (2_000, 0)
    again = broker.end(last, version=TV2)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (E.NONE, 2_000, 0)
    assert broker.add((1_000, 0), 0) is E.INVALID_PRODUCER_ID_MAPPING
    assert broker.add((2_000, 0), 0) is E.NONE


def test_without_producer_ids() -> None:
    broker = Coordinator(store=MemoryBlockStore(MAX_PRODUCER_ID))
    assert broker.init().error_code == E.UNKNOWN_SERVER_ERROR
    assert broker.init(None).error_code == E.UNKNOWN_SERVER_ERROR
    assert broker.log == []
    broker = Coordinator()
    last = with_epoch(broker, 32_766)
    broker.add(last, 0)
    broker.store = MemoryBlockStore(MAX_PRODUCER_ID)
    broker.restart()
    assert broker.commit(last, TV2) is E.UNKNOWN_SERVER_ERROR
    assert broker.state() is S.ONGOING


# AddPartitionsToTxn


def test_without_a_transactional_id(broker: Coordinator) -> None:
    assert broker.add((0, 0), 0, transactional_id="") is E.INVALID_REQUEST
    assert broker.add_offsets((0, 0), transactional_id="") is E.INVALID_REQUEST
    empty = broker.end((0, 0), transactional_id="")
    assert empty.error_code == E.INVALID_REQUEST
    place = frozenset({("t", 0)})
    assert broker.shard.verify("", 0, 0, place) == {("t", 0): E.INVALID_REQUEST}
    added = broker.shard.add_partitions("", 0, 0, place, now_ms=0)
    assert (added.error, added.result) == (E.INVALID_REQUEST, NOTHING)


def test_an_unknown_transactional_id(broker: Coordinator) -> None:
    assert broker.add((0, 0), 0) is E.INVALID_PRODUCER_ID_MAPPING
    assert broker.add_offsets((0, 0)) is E.INVALID_PRODUCER_ID_MAPPING
    for version in (TV1, TV2):
        assert broker.commit((0, 0), version) is E.INVALID_PRODUCER_ID_MAPPING


def test_brokers_ask_for_many_transactions_at_once(broker: Coordinator) -> None:
    x, y = broker.producer("x"), broker.producer("y")
    broker.add(x, 0)
    topics = (AddPartitionsToTxnTopic("t", (0, 1)),)
    request = AddPartitionsToTxnRequest(
        (
            AddPartitionsToTxnTransaction("x", *x, True, topics),
            AddPartitionsToTxnTransaction("y", *y, False, topics),
            AddPartitionsToTxnTransaction("y", *y, False, topics),
            AddPartitionsToTxnTransaction("z", *y, False, topics),
        )
    )
    response = broker.send(request, 4)
    assert [
        (
            result.transactional_id,
            [
                each.partition_error_code
                for topic in result.topic_results
                for each in topic.results_by_partition
            ],
        )
        for result in response.results_by_transaction
    ] == [("x", [0, 120]), ("y", [0, 0]), ("y", [51, 51]), ("z", [49, 49])]
    assert broker.view("y").partitions == (("t", 0), ("t", 1))
    assert broker.view("y").client_transaction_version == 2
    assert broker.view("x").client_transaction_version == 0


def test_writes_add_their_partitions_themselves(broker: Coordinator) -> None:
    producer = broker.producer()
    shard, now_ms = broker.shard, broker.now_ms
    places = frozenset({("t", 0), ("t", 1)})
    assert set(shard.verify("x", *producer, places).values()) == {E.TRANSACTION_ABORTABLE}
    added = shard.add_partitions("x", *producer, places, now_ms=now_ms)
    assert added.error is E.NONE
    assert len(added.result.records) == 1
    again = shard.add_partitions("x", *producer, places, now_ms=now_ms)
    assert (again.error, again.result) == (E.CONCURRENT_TRANSACTIONS, NOTHING)
    broker.apply(added.result)
    assert broker.state() is S.ONGOING
    assert broker.view().client_transaction_version == 2
    assert set(shard.verify("x", *producer, places).values()) == {E.NONE}
    there = shard.add_partitions("x", *producer, places, now_ms=now_ms)
    assert (there.error, there.result) == (E.NONE, NOTHING)
    broker.failing = E.NOT_ENOUGH_REPLICAS
    more = shard.add_partitions("x", *producer, frozenset({("t", 2)}), now_ms=now_ms)
    broker.apply(more.result)
    assert broker.view().partitions == (("t", 0), ("t", 1))


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
    ],
)
def test_appends_that_fail_change_nothing(
    broker: Coordinator, failure: E, answer: E, caplog: pytest.LogCaptureFixture
) -> None:
    broker.failing = failure
    assert broker.init("new").error_code == answer
    assert broker.shard.transaction("new") is None
    assert f"transactional id new: writing its record failed: {failure.name}" in caplog.messages
    broker.failing = None
    producer = broker.producer()
    before = broker.view()
    broker.failing = failure
    assert broker.add(producer, 0) is answer
    assert broker.add_offsets(producer) is answer
    assert broker.init().error_code == answer
    assert broker.abort(producer, TV2) is answer
    assert broker.view() == before
    broker.failing = None
    assert broker.add(producer, 0) is E.NONE
    before = broker.view()
    broker.failing = failure
    assert broker.commit(producer) is answer
    assert broker.view() == before


# administration


def test_describe_transactions_answers_known_and_unknown_ids(broker: Coordinator) -> None:
    producer = broker.producer()
    broker.add(producer, 2, 0)
    request = DescribeTransactionsRequest(("x", "unknown", ""))
    states = broker.send(request, 0).transaction_states
    assert [(e.transactional_id, e.error_code) for e in states] == [
        *(("x", 0), ("unknown", 105), ("", 42)),
    ]
    assert states[0].transaction_state == "Ongoing"
    assert states[0].topics == (TopicData("t", (0, 2)),)
    broker.commit(producer)
    broker.write_markers({("t", 0): E.NONE, ("t", 2): E.REQUEST_TIMED_OUT})
    (state,) = broker.send(DescribeTransactionsRequest(("x",)), 0).transaction_states
    assert state.transaction_state == "PrepareCommit"
    assert state.topics == (TopicData("t", (2,)),), "the others have their marker"


def test_list_transactions_answers_with_unknown_filters(broker: Coordinator) -> None:
    broker.producer("x")
    broker.add(broker.producer("y"), 0, transactional_id="y")
    response = broker.send(ListTransactionsRequest(("Ongoing", "Odd")), 0)
    assert [each.transactional_id for each in response.transaction_states] == ["y"]
    assert response.unknown_state_filters == ("Odd",)
    assert {each.transactional_id for each in broker.shard.transactions} == {"x", "y"}


# service


def test_before_and_after_service_everything_is_refused() -> None:
    ids = ProducerIdAllocator(MemoryBlockStore())
    shard = TransactionCoordinatorShard(1, TransactionConfig(), ids)
    place = frozenset({("t", 0)})

    def refusals() -> set[int]:
        answers = [
            shard.handle(each, RequestContext(1, 3), 0)
            for each in (
                InitProducerIdRequest("x", 0),
                EndTxnRequest("x"),
                ListTransactionsRequest(),
            )
        ]
        assert all(each.records == () for each in answers)
        codes = {getattr(each.replies[0].response, "error_code", 0) for each in answers}
        codes |= set(shard.verify("x", 0, 0, place).values())
        return codes | {shard.add_partitions("x", 0, 0, place, now_ms=0).error}

    assert refusals() == {E.COORDINATOR_LOAD_IN_PROGRESS}
    assert shard.loaded(0) == NOTHING
    assert E.COORDINATOR_LOAD_IN_PROGRESS not in refusals()
    assert shard.unload(E.NOT_COORDINATOR, 0) == NOTHING
    assert refusals() == {E.NOT_COORDINATOR}
    assert shard.deadline_ms is None
    assert shard.transactions == ()


def test_unloading_forgets_what_is_due(broker: Coordinator) -> None:
    producer = broker.producer()
    broker.add(producer, 0)
    broker.commit(producer)
    broker.write_markers(E.REQUEST_TIMED_OUT)
    broker.shard.unload(E.NOT_COORDINATOR, broker.now_ms)
    assert broker.shard.deadline_ms is None
    done = {("t", 0): E.NONE}
    assert broker.shard.markers_written("x", *producer, done, broker.now_ms) == NOTHING


def test_logs_name_the_transactional_id_first(
    broker: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "groupsdk.broker.coordinator.transactions"):
        producer = broker.producer()
        broker.add(producer, 0)
        broker.init()
        broker.write_markers(E.REQUEST_TIMED_OUT)
    assert caplog.messages == [
        "producer ids 0 to 999 claimed",
        "transactional id x: initialized with producer id 0, epoch 0",
        "transactional id x: a new producer fences the one with a transaction",
        "transactional id x: retrying the marker for t-0 after REQUEST_TIMED_OUT",
    ]
