"""Test what is read, from where, and what is known of positions."""

from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    KafkaError,
    KafkaException,
    TopicPartition as NativePartition,
)
from pytest_mock import MockerFixture

from groupsdk.clock import ManualClock
from groupsdk.consumer.reader import BrokerReach, Reader
from groupsdk.errors import NoOffsetError
from groupsdk.types import OffsetAndMetadata
from tests.consumer.rig import FakeNative, partitions


T0, T1, T2 = partitions("t-0", "t-1", "t-2")


def made(reset: str = "earliest") -> tuple[Reader, FakeNative]:
    native: Any = FakeNative()
    return Reader(lambda: native, reset), native


def test_taken_partition_waits_for_its_offset() -> None:
    reader, native = made()
    reader.take([T0, T1])
    assert reader.unplaced == {T0, T1}
    reader.begin({T0: OffsetAndMetadata(5)})
    assert native.assigned_at == {T0: 5}
    assert (reader.reading, reader.waiting) == ({T0}, {T1})
    reader.begin({T1: None})
    assert native.assigned_at[T1] == OFFSET_BEGINNING


@pytest.mark.parametrize(
    ("reset", "offset"), [("earliest", OFFSET_BEGINNING), ("latest", OFFSET_END)]
)
def test_without_an_offset_the_reset_says_where(reset: str, offset: int) -> None:
    reader, native = made(reset)
    reader.take([T0])
    reader.begin({T0: None})
    assert native.assigned_at == {T0: offset}


def test_without_a_reset_the_others_begin_all_the_same() -> None:
    reader, native = made("none")
    reader.take([T0, T1])
    with pytest.raises(NoOffsetError, match="t-1"):
        reader.begin({T0: OffsetAndMetadata(1), T1: None})
    assert native.assigned_at == {T0: 1}
    reader.seek(T1, 3)
    assert reader.unplaced == set()
    reader.begin({})
    assert native.assigned_at[T1] == 3


def test_a_pause_outlives_neither_the_assignment_nor_librdkafka_s_memory_of_it() -> None:
    reader, native = made()
    reader.take([T0, T1])
    reader.pause([T0])  # before it is read
    reader.begin({T0: None, T1: None})
    assert native.paused == {T0}
    reader.release([T0])
    assert native.paused == set()
    reader.take([T0])
    reader.begin({T0: None})
    assert native.paused == set()
    assert reader.paused == set()


def test_while_nothing_may_be_read_librdkafka_is_served_without_a_record() -> None:
    reader, native = made()
    reader.serve()  # before anything is assigned, too
    reader.take([T0, T1, T2])
    reader.begin({T0: None, T1: None, T2: None})
    for each in (T0, T1, T2):
        native.ends[each] = 3
    reader.pause([T0])
    reader.serve()
    assert native.paused == {T0, T1, T2}
    reader.resume([T0])
    reader.pause([T1])
    reader.release([T2])
    assert T2 not in native.paused, "librdkafka keeps a pause beyond the assignment"
    reader.serve()
    reader.go_on()
    assert native.paused == {T1}, "the user's own pause stays"
    assert [(each.partition(), each.offset()) for each in reader.consume(9, 0)] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]


def test_a_record_that_came_with_librdkafka_s_news_is_read_again() -> None:
    reader, native = made()
    reader.take([T0])
    reader.begin({T0: None})
    native.ends[T0] = 2
    native.pause = lambda natives: None  # type: ignore[method-assign]  # it came just before the pause
    reader.serve()
    reader.go_on()
    assert [each.offset() for each in reader.consume(9, 0)] == [0, 1]


def test_releasing_forgets_all_and_makes_what_was_asked_void() -> None:
    reader, native = made()
    reader.take([T0, T1])
    epoch = reader.epoch
    reader.begin({T0: OffsetAndMetadata(5)})
    assert reader.epoch == epoch
    reader.seek(T1, 9)
    reader.release([T0, T1])
    assert reader.epoch > epoch
    assert not native.assigned
    assert reader.positions([T0, T1]) == {T0: None, T1: None}
    reader.take([T1])
    assert reader.unplaced == {T1}


def test_positions_come_from_librdkafka_or_from_where_reading_began() -> None:
    reader, native = made()
    reader.take([T0, T1, T2])
    reader.begin({T0: OffsetAndMetadata(5, 1), T1: None})
    assert reader.positions([T0, T1, T2]) == {T0: OffsetAndMetadata(5, 1), T1: None, T2: None}
    native.ends[T0] = 8
    assert len(reader.consume(10, 0)) == 3
    reader.handed_out()
    assert reader.positions([T0]) == {T0: OffsetAndMetadata(8)}
    reader.seek(T0, 6)
    reader.seek(T2, 4)
    assert reader.positions([T0, T2]) == {T0: OffsetAndMetadata(6), T2: OffsetAndMetadata(4)}
    reader.seek(T0, OFFSET_BEGINNING)
    assert reader.positions([T0]) == {T0: None}
    assert reader.poll(0) is not None


def test_lags_are_what_librdkafka_has_seen_of_the_ends() -> None:
    reader, native = made()
    reader.take([T0, T1, T2])
    reader.begin({T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(2)})
    native.ends |= {T0: 8, T1: 0}
    assert reader.lags([T0, T1, T2]) == {T0: 3}
    native.ends[T0] = 4
    assert reader.lags([T0]) == {T0: 0}


def test_only_what_is_owned_can_be_steered() -> None:
    reader, native = made()
    reader.take([T0])
    with pytest.raises(ValueError, match="t-1 is not assigned"):
        reader.seek(T1, 0)
    with pytest.raises(ValueError, match="t-1, t-2: not assigned"):
        reader.pause([T0, T1, T2])
    with pytest.raises(ValueError, match="t-1: not assigned"):
        reader.resume([T1])
    reader.close()
    assert native.closed
    assert reader.closed


def test_librdkafka_is_told_the_leaders_of_a_new_topic_once() -> None:
    reader, native = made()
    reader.take([T0, T1, T2])
    reader.begin({T0: None})
    reader.begin({T1: None, T2: None})
    assert native.asked_leaders == ["t"]


def test_reading_begins_without_a_known_leader_and_is_retried() -> None:
    reader, native = made()
    reader.take([T0, T1])
    native.no_leaders = KafkaException(KafkaError(KafkaError._TRANSPORT))
    reader.begin({T0: None})
    assert reader.reading == {T0}
    native.no_leaders = None
    reader.begin({T1: None})
    assert native.asked_leaders == ["t"]


def test_the_leaders_of_many_topics_are_not_waited_for() -> None:
    reader, native = made()
    many = partitions(*(f"topic{number}-0" for number in range(50)))
    reader.take(many)
    reader.begin(dict.fromkeys(many))
    assert reader.reading == set(many)
    assert len(native.asked_leaders) == 20


def test_a_record_that_an_interruption_drops_while_librdkafka_is_served_is_read_again() -> None:
    reader, native = made()
    reader.take([T0])
    reader.begin({T0: None})
    native.ends[T0] = 2
    native.pause = lambda natives: None  # type: ignore[method-assign]  # it came just before the pause
    native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reader.serve()
    reader.go_on()
    assert [each.offset() for each in reader.consume(9, 0)] == [0, 1]


def test_paused_partition_resumes_after_an_interrupted_attempt(mocker: MockerFixture) -> None:
    reader, native = made()
    reader.take([T0])
    reader.begin({T0: None})
    reader.serve()
    interrupted = mocker.patch.object(native, "resume", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        reader.go_on()
    mocker.stop(interrupted)
    assert native.paused == {T0}
    reader.go_on()
    assert native.paused == set()


def test_records_lost_by_an_interrupted_read_are_read_again() -> None:
    reader, native = made()
    native.ends[T0] = native.ends[T1] = 4
    reader.take([T0, T1])
    reader.begin({T0: OffsetAndMetadata(1), T1: None})
    assert len(reader.consume(1, 0)) == 1
    reader.handed_out()
    reader.refresh_mark(1_000)
    native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reader.consume(10, 0)  # five records are gone
    assert reader.positions([T0, T1]) == {T0: OffsetAndMetadata(2), T1: None}
    assert [each.value() for each in reader.consume(10, 0)] == [
        *(b"t-0@2", b"t-0@3", b"t-1@0", b"t-1@1", b"t-1@2", b"t-1@3")
    ]


def test_going_back_is_begun_again_where_it_is_interrupted_too(mocker: MockerFixture) -> None:
    reader, native = made()
    native.ends[T0] = native.ends[T1] = 2
    reader.take([T0, T1])
    reader.begin({T0: OffsetAndMetadata(0), T1: OffsetAndMetadata(0)})
    native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reader.consume(10, 0)
    interrupted = mocker.patch.object(native, "seek", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        reader.count_processed()
    mocker.stop(interrupted)
    assert len(reader.consume(10, 0)) == 4


def test_without_a_fresh_mark_some_more_is_read_again() -> None:
    reader, native = made()
    native.ends[T0] = 5
    reader.take([T0])
    reader.begin({T0: OffsetAndMetadata(1)})
    for _ in range(2):
        reader.consume(1, 0)
        reader.handed_out()
    native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reader.poll(0)
    reader.count_processed()
    assert reader.positions([T0]) == {T0: OffsetAndMetadata(1)}


def test_records_given_back_are_read_again_where_the_partition_is_still_read() -> None:
    reader, native = made()
    native.ends[T0] = native.ends[T1] = 2
    reader.take([T0, T1])
    reader.begin({T0: None, T1: None})
    batch = reader.consume(10, 0)
    assert len(batch) == 4
    reader.handed_out()
    batch.clear()  # the list is the user's
    reader.release([T1])
    reader.give_back()
    reader.give_back()
    assert [each.value() for each in reader.consume(10, 0)] == [b"t-0@0", b"t-0@1"]
    reader.handed_out()
    reader.count_processed()
    reader.give_back()
    assert reader.consume(10, 0) == []


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_records_given_back_are_read_again_whatever_became_of_their_list(reset: str) -> None:
    reader, native = made(reset)
    reader.take([T0, T1])
    reader.begin({T0: OffsetAndMetadata(1), T1: None})
    native.ends[T0] = native.ends[T1] = 3
    for change in (list.clear, list.pop, lambda batch: batch.__setitem__(0, "done"), len):
        batch = reader.consume(10, 0)
        reader.handed_out()
        change(batch)
        reader.give_back()
    again = sorted(str(each.value()) for each in reader.consume(10, 0))
    assert again == [f"b'{name}'" for name in ("t-0@1", "t-0@2", "t-1@0", "t-1@1", "t-1@2")]


def test_an_interrupted_read_does_not_go_back_to_the_beginning_of_what_was_to_begin_at_the_end() -> (
    None
):
    reader, native = made("earliest")
    native.ends[T0] = 5
    reader.take([T0])
    reader.seek(T0, OFFSET_END)
    reader.begin({})
    native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reader.consume(10, 0)
    assert reader.consume(10, 0) == []
    assert reader.positions([T0]) == {T0: None}


def test_seek_before_librdkafka_has_begun_sets_the_first_offset() -> None:
    reader, native = made()
    native.ends[T0] = native.ends[T1] = 4
    reader.take([T0, T1])
    reader.begin({T0: None, T1: OffsetAndMetadata(1)})
    reader.pause([T0])
    native.not_begun = {T0}
    reader.seek(T0, 2)
    assert native.assigned_at[T0] == 2
    native.not_begun = {T0}
    assert len(reader.consume(10, 0)) == 3
    reader.handed_out()
    reader.refresh_mark(1_000)
    native.interrupt = KeyboardInterrupt()
    native.ends[T1] = 5
    with pytest.raises(KeyboardInterrupt):
        reader.consume(10, 0)
    native.not_begun = {T0}
    assert [each.value() for each in reader.consume(10, 0)] == [
        b"t-1@4"
    ]  # though the first is refused


def test_a_seek_that_is_refused_for_another_reason_says_so() -> None:
    reader, native = made()
    reader.take([T0])
    reader.begin({T0: None})

    def refuse(_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    native.seek = refuse  # type: ignore[assignment,method-assign]  # as librdkafka may
    with pytest.raises(KafkaException):
        reader.seek(T0, 1)


class OutOfRange:
    """What librdkafka says of a partition whose offset the log does not have."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0


def test_by_duration_a_partition_begins_at_what_was_written_since_then() -> None:
    native: Any = FakeNative()
    clock = ManualClock(1_000_000)
    reader = Reader(lambda: native, "by_duration:PT6M", date=clock)
    native.at_time[T0] = 7
    reader.take([T0, T1, T2])
    native.no_times = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    reader.begin({T0: None, T1: None, T2: OffsetAndMetadata(3)})
    assert (native.assigned_at, reader.waiting) == ({T2: 3}, {T0, T1})
    native.no_times = None
    reader.begin({T0: None, T1: None})
    assert native.asked_times == [640_000, 640_000]
    # of the second one every record is older
    assert native.assigned_at == {T2: 3, T0: 7, T1: OFFSET_END}


@pytest.mark.parametrize("paused", [False, True])
def test_by_duration_a_partition_that_is_out_of_range_begins_so_too(paused: bool) -> None:
    native: Any = FakeNative()
    reader = Reader(lambda: native, "by_duration:PT6M", date=ManualClock())
    native.at_time[T0] = 7
    native.ends |= {T0: 9, T1: 2}
    reader.take([T0, T1])
    reader.begin({T0: OffsetAndMetadata(99), T1: OffsetAndMetadata(1)})
    if paused:
        reader.pause([T0])
    native.troubles = [OutOfRange()]
    assert [each.offset() for each in reader.consume(9, 1)] == [1]
    reader.handed_out()
    assert reader.unplaced == {T0}
    reader.begin({T0: OffsetAndMetadata(99)})
    assert native.assigned_at[T0] == 7
    assert native.paused == ({T0} if paused else set())
    native.troubles = [OutOfRange()]
    assert reader.poll(1) is None
    assert reader.waiting == {T0}


def test_otherwise_an_offset_out_of_range_is_for_the_user_to_see() -> None:
    reader, native = made("none")
    reader.take([T0])
    reader.begin({T0: OffsetAndMetadata(99)})
    native.troubles = [OutOfRange()]
    (message,) = reader.consume(9, 1)
    assert message.error() is not None
    assert reader.reading == {T0}


def test_partition_torn_by_an_interruption_is_read_from_the_committed_offset() -> None:
    reader, native = made()
    reader.take([T0, T1, T2])
    reader.begin(dict.fromkeys((T0, T1, T2), OffsetAndMetadata(5)))
    reader.pause([T1])
    native.incremental_unassign([NativePartition(*T0)])  # and no more of a release
    reader.reading.discard(T2)  # before librdkafka was told
    reader.mend({T0, T1, T2})
    assert (reader.reading, reader.waiting) == ({T1}, {T0, T2})
    assert set(native.assigned) == {T1}
    reader.begin(dict.fromkeys((T0, T2), OffsetAndMetadata(6)))
    assert native.assigned_at == {T0: 6, T1: 5, T2: 6}
    reader.mend({T1})
    assert (reader.reading, reader.waiting, reader.paused) == ({T1}, set(), {T1})


def test_a_client_is_lost_that_is_seen_three_times_without_a_connection() -> None:
    native: Any = FakeNative()
    reach = BrokerReach()

    def lost_at(*times_ms: int, reached: bool = True) -> list[bool]:
        found = []
        for now_ms in times_ms:
            reach.look(native, "t", now_ms, reached=reached)
            found.append(reach.lost)
        return found

    native.forgotten = True
    assert lost_at(0, 4_999, 5_000, 9_999, 10_000) == [False] * 4 + [True]
    native.forgotten = False
    assert lost_at(15_000) == [False]
    native.forgotten = True
    assert lost_at(314_999, 315_000, 320_000) == [False] * 3
    assert lost_at(321_000, reached=False) == [False]
    assert lost_at(325_999, 326_000, 331_000, 336_000) == [False] * 3 + [True]


def test_a_lost_coordinator_has_the_client_looked_at_soon() -> None:
    native: Any = FakeNative()
    reach = BrokerReach()
    reach.look(native, "t", 0, reached=True)
    native.forgotten = True
    reach.look(native, "t", 60_000, reached=False)
    for now_ms in (65_000, 70_000, 75_000):
        assert not reach.lost
        reach.look(native, None, now_ms, reached=True)
        reach.look(native, "t", now_ms, reached=True)
    assert reach.lost
