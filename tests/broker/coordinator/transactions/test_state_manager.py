"""Tests what a shard does by itself: markers, timeouts, expiry, and failed appends."""

import logging

import pytest

from groupsdk.broker.coordinator.runtime.contract import NOTHING, MarkerPartitions
from groupsdk.broker.coordinator.transactions.log_records import TransactionRecord
from groupsdk.broker.coordinator.transactions.metadata import TransactionState as S
from groupsdk.broker.coordinator.transactions.producer_ids import (
    MAX_PRODUCER_ID,
)
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode as E
from tests.broker.coordinator.transactions.driving import TV1, TV2, Coordinator, MemoryBlockStore


HOUR = 3_600_000


@pytest.fixture
def broker() -> Coordinator:
    return Coordinator()


def begun(broker: Coordinator, *partitions: int, version: int = 3) -> tuple[int, int]:
    """Begins a transaction on partitions of topic "t"."""
    producer = broker.producer()
    assert broker.add(producer, *partitions, version=version) is E.NONE
    return producer


def test_the_outcome_is_in_the_log_before_its_markers(broker: Coordinator) -> None:
    producer = begun(broker, 2, 0)
    assert broker.commit(producer) is E.NONE
    assert broker.state() is S.PREPARE_COMMIT
    assert broker.markers == [
        MarkerPartitions("x", *producer, True, broker.epoch, (("t", 0), ("t", 2)))
    ]
    broker.write_markers()
    assert broker.state() is S.COMPLETE_COMMIT
    assert broker.view().partitions == ()
    assert {place: len(markers) for place, markers in broker.written.items()} == {
        ("t", 0): 1,
        ("t", 2): 1,
    }


def test_failed_markers_are_written_again_with_growing_waits(broker: Coordinator) -> None:
    producer = begun(broker, 0, 1)
    broker.abort(producer)
    broker.write_markers({("t", 0): E.NONE, ("t", 1): E.NOT_LEADER_OR_FOLLOWER})
    assert broker.view().waiting_for_markers == (("t", 1),)
    for wait_ms in (50, 100, 200, 400, 800, 1_000, 1_000):
        assert broker.markers == []
        assert broker.shard.deadline_ms == broker.now_ms + wait_ms
        broker.wait(wait_ms)
        assert [each.partitions for each in broker.markers] == [(("t", 1),)]
        broker.write_markers(E.NETWORK_EXCEPTION)
    broker.wait(1_000)
    broker.write_markers()
    assert broker.state() is S.COMPLETE_ABORT
    assert {place: len(markers) for place, markers in broker.written.items()} == {
        ("t", 0): 1,
        ("t", 1): 1,
    }


def test_outcomes_may_come_in_parts(broker: Coordinator) -> None:
    producer = begun(broker, 0, 1, 2)
    broker.commit(producer)
    report = broker.shard.markers_written
    assert report("x", *producer, {("t", 0): E.REQUEST_TIMED_OUT}, broker.now_ms) == NOTHING
    assert report("x", *producer, {("t", 1): E.NOT_ENOUGH_REPLICAS}, broker.now_ms) == NOTHING
    broker.markers.clear()
    broker.wait(50)  # the second failure joins the first one's wait
    assert [each.partitions for each in broker.markers] == [(("t", 0), ("t", 1))]
    broker.write_markers()
    assert broker.state() is S.PREPARE_COMMIT
    broker.apply(report("x", *producer, {("t", 2): E.NONE}, broker.now_ms))
    assert broker.state() is S.COMPLETE_COMMIT


def test_outcomes_of_something_else_are_ignored(broker: Coordinator) -> None:
    producer = begun(broker, 0)
    report = broker.shard.markers_written
    done = {("t", 0): E.NONE}
    assert report("x", *producer, done, 0) == NOTHING  # nothing was asked for
    broker.commit(producer)
    assert report("y", *producer, done, 0) == NOTHING
    assert report("x", producer[0] + 1, producer[1], done, 0) == NOTHING
    assert report("x", producer[0], producer[1] + 1, done, 0) == NOTHING
    assert broker.state() is S.PREPARE_COMMIT
    # while the last record is on its way, nothing is added to it
    assert report("x", *producer, done, broker.now_ms).records != ()
    assert report("x", *producer, done, broker.now_ms) == NOTHING


@pytest.mark.parametrize("error", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_a_fenced_coordinator_stops(broker: Coordinator, error: E) -> None:
    producer = begun(broker, 0, 1)
    broker.commit(producer)
    broker.write_markers({("t", 0): E.REQUEST_TIMED_OUT, ("t", 1): error})
    broker.wait(HOUR)
    assert broker.markers == []
    assert broker.commit(producer) is E.CONCURRENT_TRANSACTIONS
    done = dict.fromkeys(broker.view().partitions, E.NONE)
    assert broker.shard.markers_written("x", *producer, done, broker.now_ms) == NOTHING
    # until the partition is loaded again
    broker.restart()
    broker.write_markers()
    assert broker.state() is S.COMPLETE_COMMIT


def test_partitions_without_leader_or_transactions_are_dropped(broker: Coordinator) -> None:
    producer = begun(broker, 0, 1, 2)
    broker.commit(producer)
    broker.write_markers(
        {
            ("t", 0): E.LEADER_NOT_AVAILABLE,
            ("t", 1): E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ("t", 2): E.UNSUPPORTED_VERSION,
        }
    )
    assert broker.state() is S.COMPLETE_COMMIT


def test_a_transaction_without_partitions_is_complete_at_once(broker: Coordinator) -> None:
    producer = broker.producer()
    before = len(broker.log)
    response = broker.end(producer, commit=False, version=TV2)
    assert response.error_code == E.NONE
    assert (response.producer_id, response.producer_epoch) == (producer[0], 1)
    assert broker.state() is S.COMPLETE_ABORT
    assert len(broker.log) == before + 2
    assert broker.markers == []


# recovery


def test_prepared_transaction_resumes_after_a_crash(
    broker: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    producer = begun(broker, 0, 1)
    broker.commit(producer)
    with caplog.at_level(logging.INFO):
        broker.restart()
    assert caplog.messages == ["transactional id x: resuming PrepareCommit on 2 partitions"]
    assert broker.markers == [
        MarkerPartitions("x", *producer, True, broker.epoch, (("t", 0), ("t", 1)))
    ]
    assert broker.epoch == 2
    assert broker.commit(producer) is E.CONCURRENT_TRANSACTIONS
    broker.write_markers()
    assert broker.state() is S.COMPLETE_COMMIT


def test_prepared_transaction_without_partitions_is_completed_by_loading(
    broker: Coordinator,
) -> None:
    producer = broker.producer()
    broker.end(producer, commit=False, version=TV2)
    broker.restart(keep=len(broker.log) - 1)
    assert broker.state() is S.COMPLETE_ABORT
    assert broker.markers == []


def test_transaction_never_prepared_times_out_after_a_crash(broker: Coordinator) -> None:
    begun(broker, 0)
    broker.restart()
    assert broker.state() is S.ONGOING
    broker.wait(70_001)
    broker.write_markers()
    assert broker.state() is S.COMPLETE_ABORT


def test_memory_only_values_are_lost_in_a_crash(broker: Coordinator) -> None:
    producer_id, epoch = begun(broker, 0)
    broker.commit((producer_id, epoch), version=TV2)
    broker.write_markers()
    assert broker.view().last_producer_epoch == epoch
    assert broker.init(producer_id=producer_id, producer_epoch=epoch).error_code == E.NONE
    begun(broker, 0)
    broker.restart()
    assert broker.view().last_producer_epoch == -1


# time


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_is_open_for_too_long_is_aborted(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Coordinator(TransactionConfig(transaction_version=version))
    started_ms = broker.now_ms
    broker.wait(2_000)
    producer = begun(broker, 0)
    broker.wait(59_999)
    assert broker.add(producer, 1) is E.NONE  # another partition does not put it off
    assert broker.state() is S.ONGOING
    # looked for every 10 s: open since 2,000, so 62,000 is not over the limit yet, and 70,000 is
    assert broker.shard.deadline_ms == started_ms + 70_000
    with caplog.at_level(logging.INFO):
        broker.wait(8_001)
    assert broker.now_ms == started_ms + 70_000
    assert broker.state() is S.PREPARE_ABORT
    assert "x: aborting the transaction of producer id 0, epoch 0: open for more" in caplog.text
    (marker,) = broker.markers
    assert (marker.committed, marker.producer_epoch) == (False, 1)
    broker.write_markers()
    assert broker.state() is S.COMPLETE_ABORT
    assert broker.add(producer, 0) is E.PRODUCER_FENCED
    assert broker.commit(producer) is E.PRODUCER_FENCED


def test_exactly_its_timeout_is_not_too_long(broker: Coordinator) -> None:
    begun(broker, 0)
    broker.wait(60_000)
    assert broker.state() is S.ONGOING
    broker.wait(10_000)
    assert broker.state() is S.PREPARE_ABORT


def test_a_transaction_that_ended_does_not_time_out(broker: Coordinator) -> None:
    producer = begun(broker, 0)
    broker.commit(producer)
    broker.write_markers()
    broker.wait(60_000)
    assert broker.add(producer, 0) is E.NONE
    broker.wait(60_000)
    assert broker.state() is S.ONGOING


def test_a_prepared_transaction_does_not_time_out(broker: Coordinator) -> None:
    producer = begun(broker, 0)
    broker.commit(producer)
    broker.wait(HOUR)
    assert broker.state() is S.PREPARE_COMMIT


def test_ids_that_nobody_uses_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    config = TransactionConfig(transactional_id_expiration_ms=5 * HOUR)
    broker = Coordinator(config)
    broker.producer("idle")
    with caplog.at_level(logging.INFO):
        broker.wait(5 * HOUR - 1)
        assert broker.shard.transaction("idle") is not None
        broker.wait(1)
    assert broker.shard.transaction("idle") is None
    assert [*broker.shard.decode(broker.log)][-1] == TransactionRecord("idle", None)
    assert (
        "transactional id idle: expired: unused for longer than transactional.id.expiration.ms"
        in caplog.messages
    )
    assert broker.shard.deadline_ms is None
    broker.restart()
    assert broker.shard.transactions == ()
    # it begins anew, with another producer id
    assert broker.producer("idle") == (1_000, 0)


def test_ids_in_use_are_kept() -> None:
    broker = Coordinator(TransactionConfig(transactional_id_expiration_ms=5 * HOUR))
    producer = broker.producer("x", timeout_ms=900_000)
    for _ in range(3):
        broker.wait(2 * HOUR)
        broker.add(producer, 0)
        broker.commit(producer)
        broker.write_markers()
    assert broker.state() is S.COMPLETE_COMMIT
    broker.wait(4 * HOUR)
    assert broker.state() is S.COMPLETE_COMMIT
    broker.add(producer, 0)
    broker.commit(producer)
    broker.wait(20 * HOUR)
    assert broker.state() is S.PREPARE_COMMIT  # an outcome is never forgotten
    broker.write_markers()
    broker.wait(5 * HOUR)
    assert broker.shard.transactions == ()


def test_many_at_once_come_in_batches_of_a_bounded_size() -> None:
    broker = Coordinator(TransactionConfig(transactional_id_expiration_ms=HOUR))
    for number in range(30):
        broker.producer(f"{number:02}-" + "i" * 30_000)
    until_ms = broker.shard.deadline_ms
    assert until_ms is not None
    sizes = []
    while broker.shard.deadline_ms == until_ms:
        result = broker.shard.advance(until_ms)
        sizes.append(sum(len(each.encoded()[0][0]) for each in result.records))
        broker.apply(result)
    assert len(sizes) == 2
    assert max(sizes) < 600_000
    assert broker.shard.transactions == ()


def test_nothing_is_due_where_nothing_is_known(broker: Coordinator) -> None:
    assert broker.shard.deadline_ms is None
    assert broker.shard.advance(10**15) == NOTHING


def test_a_timeout_waits_for_the_producer_id_that_it_needs(
    broker: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    producer_id, _ = begun(broker, 0)
    value = broker.log[-1].value
    assert value is not None
    last = (32_766).to_bytes(2)
    broker.log.append(broker.log[-1]._replace(value=value[:10] + last + value[12:]))
    broker.store = store = MemoryBlockStore(MAX_PRODUCER_ID)
    broker.restart()
    broker.wait(100_000)
    assert broker.state() is S.ONGOING
    assert "x: cannot allocate a producer id: no block of 1000 producer ids is left" in caplog.text
    store._next_start = 1_000  # the same coordinator tries again
    broker.wait(100_000)
    broker.write_markers()
    assert broker.state() is S.COMPLETE_ABORT
    # its producer, which repeats what it believes, is given an epoch that it may have
    response = broker.end((producer_id, 32_766), commit=False, version=TV2)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 1_000, 0)


# appends that fail


def test_a_failed_completion_is_tried_again(
    broker: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    producer = begun(broker, 0)
    broker.commit(producer)
    broker.failing = E.KAFKA_STORAGE_ERROR
    broker.write_markers()
    assert broker.state() is S.PREPARE_COMMIT
    assert broker.view().waiting_for_markers == ()
    assert broker.commit(producer) is E.CONCURRENT_TRANSACTIONS
    broker.wait(60_000)
    assert caplog.text.count("x: writing its record failed") < 10
    broker.failing = None
    broker.wait(1_000)
    assert broker.state() is S.COMPLETE_COMMIT
    assert len(broker.written["t", 0]) == 1


def test_a_failed_completion_on_loading_is_tried_again(broker: Coordinator) -> None:
    producer = broker.producer()
    broker.end(producer, commit=False, version=TV2)
    broker.failing = E.NOT_ENOUGH_REPLICAS
    broker.restart(keep=len(broker.log) - 1)
    assert broker.state() is S.PREPARE_ABORT
    broker.failing = None
    broker.wait(50)
    assert broker.state() is S.COMPLETE_ABORT


@pytest.mark.parametrize("version", [1, 2])
def test_a_timeout_whose_abort_fails_is_tried_again_with_one_epoch(version: int) -> None:
    broker = Coordinator(TransactionConfig(transaction_version=version))
    producer = begun(broker, 0)
    broker.failing = E.NOT_ENOUGH_REPLICAS
    broker.wait(100_000)
    assert broker.state() is S.ONGOING
    # without the bump at the end the fence counts although no record says so
    fenced = version == 1
    assert broker.view().producer_epoch == (1 if fenced else 0)
    broker.failing = None
    assert broker.add(producer, 0) is (E.PRODUCER_FENCED if fenced else E.NONE)
    broker.wait(10_000)
    broker.write_markers()
    assert broker.state() is S.COMPLETE_ABORT
    assert broker.view().producer_epoch == 1


def test_an_expiry_whose_tombstone_fails_is_tried_again() -> None:
    broker = Coordinator(TransactionConfig(transactional_id_expiration_ms=HOUR))
    broker.producer()
    broker.failing = E.NOT_ENOUGH_REPLICAS
    broker.wait(10 * HOUR)
    assert broker.state() is S.EMPTY
    assert broker.init().error_code == E.COORDINATOR_NOT_AVAILABLE  # nothing is pending
    broker.failing = None
    broker.wait(HOUR)
    assert broker.shard.transactions == ()


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_failed_end_leaves_the_transaction_open(broker: Coordinator, version: int) -> None:
    producer = begun(broker, 0)
    broker.failing = E.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert broker.commit(producer, version) is E.COORDINATOR_NOT_AVAILABLE
    assert broker.markers == []
    assert broker.state() is S.ONGOING
    broker.failing = None
    assert broker.commit(producer, version) is E.NONE
