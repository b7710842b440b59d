"""Tests the runtime with a machine that says what it is told to say."""

import logging
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    UNPREPARED,
    CoordinatorShard,
    LogRecord,
    MarkerPartitions,
    ProducerStamp,
    Record,
    Reply,
    RequestContext,
    Result,
)
from groupsdk.broker.coordinator.runtime.coordinator_runtime import (
    CoordinatorRuntime,
    Marker,
    Replayed,
    RuntimeState,
)
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler
from groupsdk.clock import ManualClock
from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError, EncodeError, GroupSdkError
from groupsdk.wire.messages.groups import HeartbeatRequest, HeartbeatResponse
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.schema import Request, Response


RECORD = LogRecord(b"k", b"v")
STAMP = ProducerStamp(7, 1)
MARKERS = MarkerPartitions("x", 7, 1, True, 3, (("t", 0),))


def accepted(token: int, *records: Record, **more: Any) -> Result:
    """Accepts a request, once these records are written."""
    return Result(records, (Reply(token, HeartbeatResponse()),), **more)


class FullDiskError(GroupSdkError):
    """What a log raises that has no room."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class Machine(CoordinatorShard):
    """Notes what happens to it and answers what `say` returns."""

    def __init__(self, events: list[object]) -> None:
        self.events = events
        self.say: Any = lambda token: Result(
            replies=(Reply(token, HeartbeatResponse(error_code=0)),)
        )
        self.due: int | None = None
        self.parked: list[int] = []
        self.follow: list[Result] = []

    @override
    def decode(self, records: Sequence[Pair]) -> Iterator[LogRecord]:
        for each in records:
            if each[0] == b"bad":
                raise DecodeError("a record that cannot be read")
            yield LogRecord(*each)

    @override
    def replay(self, record: LogRecord, producer: ProducerStamp | None = None) -> None:
        self.events.append(("replay", record.key, producer))

    @override
    def written(self, result: Result, now_ms: int) -> Result:
        self.events.append(("written", len(result.records)))
        return self.follow.pop(0) if self.follow else NOTHING

    @override
    def replay_marker(self, producer: ProducerStamp, *, committed: bool) -> None:
        self.events.append(("marker", producer, committed))

    @override
    def loaded(self, now_ms: int) -> Result:
        self.events.append("loaded")
        return NOTHING

    @override
    def handle(self, request: Request[Any], context: RequestContext, now_ms: int) -> Result:
        self.events.append(("handle", context.client_id))
        result = self.say(context.token)
        if result is NOTHING:
            self.parked.append(context.token)
        assert isinstance(result, Result)
        return result

    @override
    def advance(self, now_ms: int) -> Result:
        self.events.append(("advance", now_ms))
        self.due = None
        tokens, self.parked = self.parked, []
        return Result(
            replies=tuple(Reply(each, HeartbeatResponse(error_code=27)) for each in tokens)
        )

    @property
    @override
    def deadline_ms(self) -> int | None:
        return self.due

    @override
    def append_failed(self, result: Result, error: ErrorCode, now_ms: int) -> Result:
        self.events.append(("append_failed", error))
        return Result(
            replies=tuple(
                Reply(each.token, HeartbeatResponse(error_code=15)) for each in result.replies
            )
        )

    @override
    def unload(self, error: ErrorCode, now_ms: int) -> Result:
        return Result(
            replies=tuple(Reply(each, HeartbeatResponse(error_code=error)) for each in self.parked)
        )


class Log:
    """A log in memory that can be full."""

    def __init__(self, events: list[object]) -> None:
        self.events = events
        self.entries: list[Replayed | Marker | list[Pair]] = []
        self.full = False
        self.broken = False

    def append(
        self, records: Sequence[Record], producer: ProducerStamp | None, now_ms: int
    ) -> None:
        """Appends, or fails where it is full; where it is broken, as no log may."""
        if self.broken:
            raise RuntimeError("a bug")
        if self.full:
            raise FullDiskError("no room")
        pairs = [pair for each in records for pair in each.encoded()]
        self.events.append(("append", len(pairs), producer))

    def load(self) -> Iterator[Replayed | Marker | list[Pair]]:
        yield from self.entries


class Rig:
    """A runtime with its parts."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.clock = ManualClock(1_000)
        self.scheduler = Scheduler(self.clock, lambda error: self.events.append(error))
        self.machine = Machine(self.events)
        self.log = Log(self.events)
        self.deferred: list[Any] = []
        self.markers: list[MarkerPartitions] = []
        self.runtime = CoordinatorRuntime(
            "test",
            self.machine,
            self.log,
            self.scheduler,
            self.deferred.append,
            self.markers.append,
        )
        self.answers: list[Response] = []

    def submit(self) -> None:
        self.runtime.submit(
            HeartbeatRequest("g", 1, "m"), self.answers.append, 4, "c", "/h", "User:u"
        )

    def codes(self) -> list[int]:
        """Returns the errors of the answers."""
        return [each.error_code for each in self.answers if isinstance(each, HeartbeatResponse)]


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.runtime.load()
    return made


def test_a_log_is_loaded_before_the_first_request() -> None:
    rig = Rig()
    rig.log.entries = [Replayed(RECORD, None), Replayed(RECORD, STAMP), Marker(STAMP, True)]
    assert rig.runtime.unavailable() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.runtime.load()
    assert rig.runtime.unavailable() is None
    assert rig.events == [
        ("replay", b"k", None),
        ("replay", b"k", STAMP),
        ("marker", STAMP, True),
        "loaded",
    ]


def test_a_long_log_lets_others_have_their_turn() -> None:
    rig = Rig()
    rig.log.entries = [Replayed(RECORD, None)] * 5_000
    rig.runtime.load()
    turns = 0
    while rig.runtime.unavailable() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        (go_on,) = rig.deferred
        rig.deferred.clear()
        go_on()
        turns += 1
    assert turns == 13  # 250 records each, and the end of the log
    assert len(rig.events) == 5_001


def test_a_batch_of_many_records_is_replayed_in_several_steps() -> None:
    rig = Rig()
    many: list[Pair] = [(b"%d" % number, b"v") for number in range(5_000)]
    rig.log.entries = [many[:4_990], many[4_990:], Marker(STAMP, True)]
    rig.runtime.load()
    steps = [len(rig.events)]
    while rig.deferred:
        rig.deferred.pop()()
        steps.append(len(rig.events))
    assert rig.runtime.unavailable() is None
    assert steps[0] == 2_000
    assert max(after - before for before, after in pairwise(steps)) <= 252
    assert rig.events == [
        *(("replay", key, None) for key, _ in many),
        ("marker", STAMP, True),
        "loaded",
    ]


def test_many_records_of_a_log_come_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig = Rig()
    rig.log.entries = [[(b"a", b"v"), (b"b", None)], Marker(STAMP, True), [(b"c", b"v")] * 1_998]
    rig.log.entries += [Replayed(RECORD, STAMP)]
    rig.runtime.load()
    assert rig.runtime.unavailable() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (go_on,) = rig.deferred
    go_on()
    assert "loaded 2002 records in 0 ms" in caplog.text
    assert rig.events[:4] == [
        ("replay", b"a", None),
        ("replay", b"b", None),
        ("marker", STAMP, True),
        ("replay", b"c", None),
    ]
    assert rig.events[-2:] == [("replay", b"k", STAMP), "loaded"]


def test_a_log_that_cannot_be_read_is_not_served() -> None:
    rig = Rig()
    rig.log.entries = [Replayed(LogRecord(b"bad", None), None)]
    rig.runtime.load()
    assert rig.runtime.state is RuntimeState.FAILED
    assert rig.runtime.unavailable() is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_records_are_appended_and_replayed_before_the_reply(rig: Rig) -> None:
    rig.events.clear()
    reply = HeartbeatResponse()
    rig.machine.say = lambda token: Result(
        (RECORD, RECORD), (Reply(token, reply),), producer=STAMP, markers=(MARKERS,)
    )
    rig.submit()
    assert rig.events == [
        ("handle", "c"),
        ("append", 2, STAMP),
        ("replay", b"k", STAMP),
        ("replay", b"k", STAMP),
        ("written", 2),
    ]
    assert rig.answers == [reply]
    assert rig.markers == [MARKERS]
    assert rig.runtime.waiting == 0


def test_results_that_follow_the_records_are_applied(rig: Rig) -> None:
    first, second = HeartbeatResponse(), HeartbeatResponse(error_code=27)
    rig.machine.say = lambda token: Result((RECORD,), (Reply(token, first),))
    rig.machine.follow = [Result((RECORD,)), Result(replies=(Reply(2, second),))]
    rig.runtime._owed[2] = rig.answers.append
    rig.events.clear()
    rig.submit()
    write = [("append", 1, None), ("replay", b"k", None), ("written", 1)]
    assert rig.events == [("handle", "c"), *write, *write]
    assert rig.answers == [first, second]


def test_a_record_that_cannot_be_encoded_is_not_written() -> None:
    class Broken(LogRecord):
        @override
        def encoded(self) -> Sequence[Pair]:
            raise EncodeError("too long")

    rig = Rig()
    rig.runtime.load()
    rig.machine.say = lambda token: accepted(token, Broken(b"k", b"v"))
    rig.submit()
    assert rig.codes() == [15]
    assert rig.events[-1] == ("append_failed", ErrorCode.UNKNOWN_SERVER_ERROR)


def test_result_that_is_not_appended_is_not_replayed_and_is_answered_with_an_error(
    rig: Rig,
) -> None:
    rig.log.full = True
    rig.machine.say = lambda token: accepted(token, RECORD, markers=(MARKERS,))
    rig.submit()
    assert rig.codes() == [15]
    assert ("append_failed", ErrorCode.KAFKA_STORAGE_ERROR) in rig.events
    assert not any(isinstance(each, tuple) and each[0] == "replay" for each in rig.events)
    assert rig.markers == []
    rig.log.full = False
    rig.submit()
    assert rig.codes() == [15, 0]


def test_a_parked_request_is_answered_when_it_is_due(rig: Rig) -> None:
    rig.machine.say = lambda _: NOTHING
    rig.machine.due = 1_500
    rig.submit()
    assert rig.runtime.waiting == 1
    rig.clock.advance(499)
    rig.scheduler.run_due()
    assert rig.answers == []
    rig.clock.advance(1)
    rig.scheduler.run_due()
    assert rig.codes() == [27]
    assert ("advance", 1_500) in rig.events


def test_a_deadline_that_moves_is_followed(rig: Rig) -> None:
    rig.machine.due = 5_000
    rig.submit()
    rig.machine.due = 2_000
    rig.submit()
    assert rig.scheduler.next_ms == 2_000
    rig.machine.due = 3_000  # later than the timer, as after a heartbeat
    rig.clock.advance(1_000)
    rig.scheduler.run_due()
    assert ("advance", 2_000) not in rig.events
    assert rig.scheduler.next_ms == 3_000


@pytest.mark.parametrize("count", [1, 1_999, 2_000, 2_001, 4_000])
def test_the_log_says_how_much_was_loaded(count: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig = Rig()
    rig.log.entries = [Replayed(RECORD, None)] * count
    rig.runtime.load()
    while rig.deferred:
        rig.deferred.pop()()
    assert rig.runtime.unavailable() is None
    assert rig.events.count("loaded") == 1
    assert len(rig.events) == count + 1
    assert f"loaded {count} records in 0 ms" in caplog.text


def test_a_deadline_after_the_last_read_of_requests_is_not_over_yet(rig: Rig) -> None:
    rig.machine.due = 1_500
    rig.submit()
    rig.machine.due = 7_500  # a heartbeat postponed it
    rig.clock.advance(9_000)
    rig.scheduler.run_due(until_ms=7_000)
    assert not [each for each in rig.events if isinstance(each, tuple) and each[0] == "advance"]
    rig.scheduler.run_due(until_ms=8_000)
    assert ("advance", 8_000) in rig.events


def test_unloading_answers_what_waits_and_ends_the_timers(rig: Rig) -> None:
    rig.machine.say = lambda _: NOTHING
    rig.machine.due = 2_000
    rig.submit()
    rig.runtime.unload(ErrorCode.NOT_COORDINATOR)
    assert rig.codes() == [16]
    assert rig.runtime.unavailable() is ErrorCode.NOT_COORDINATOR
    assert rig.scheduler.next_ms is None


def test_unloading_while_loading_ends_the_loading() -> None:
    rig = Rig()
    rig.log.entries = [Replayed(RECORD, None)] * 5_000
    rig.runtime.load()
    rig.runtime.unload(ErrorCode.NOT_COORDINATOR)
    for go_on in rig.deferred:
        go_on()
    assert "loaded" not in rig.events


def test_result_applied_past_the_runtime_is_appended_and_replayed(rig: Rig) -> None:
    assert rig.runtime.apply(Result((RECORD,)))
    rig.log.full = True
    assert not rig.runtime.apply(Result((RECORD,)))
    rig.runtime.marked(STAMP, committed=False)
    assert rig.events[-1] == ("marker", STAMP, False)


def test_a_request_that_the_machine_cannot_take_is_owed_nothing(rig: Rig) -> None:

    def fail(_: int) -> Result:
        raise TypeError("not for me")

    rig.machine.say = fail
    with pytest.raises(TypeError):
        rig.submit()
    assert rig.runtime.waiting == 0


def test_a_bug_in_one_deadline_does_not_end_the_others(rig: Rig) -> None:
    rig.machine.due = 1_500
    rig.submit()
    failing = rig.machine.advance

    def fail(now_ms: int) -> Result:
        raise ValueError("a bug")

    rig.machine.advance = fail  # type: ignore[method-assign]  # a machine with a bug
    rig.clock.advance(500)
    rig.scheduler.run_due()
    assert isinstance(rig.events[-1], ValueError)
    rig.machine.advance = failing  # type: ignore[method-assign]
    rig.clock.advance(1_000)
    rig.scheduler.run_due()
    assert ("advance", 2_500) in rig.events


class Gatherer(Machine):
    """A machine that takes commits together, one record for each."""

    def may_wait(self, request: Request[Any]) -> bool:
        return isinstance(request, OffsetCommitRequest)

    def handle_all(
        self, requests: Sequence[tuple[Request[Any], RequestContext]], now_ms: int
    ) -> Result:
        self.events.append(("handle_all", len(requests)))
        results = [self.say(context.token) for _, context in requests]
        return Result(
            tuple(each for result in results for each in result.records),
            tuple(each for result in results for each in result.replies),
        )

    def handle_in_steps(
        self, request: Request[Any], context: RequestContext, now_ms: int
    ) -> Generator[None, None, Result]:
        for _ in range(3):
            self.events.append("step")
            yield
        return self.handle(request, context, now_ms)

    def encode_in_steps(
        self, request: Request[Any], result: Result
    ) -> Generator[None, None, Result | None]:
        for _ in range(2):
            yield
        return None if self.has_changed else result

    has_changed = False

    def prepare_in_steps(self, request: Request[Any]) -> Generator[None, None, None]:
        for _ in range(2):
            yield
        self.events.append("prepared")

    def handle_prepared(
        self, request: Request[Any], context: RequestContext, now_ms: int
    ) -> Result:
        return self.handle(request, context, now_ms)

    def refuse(self, request: Request[Any], error: ErrorCode, api_version: int) -> Response:
        return HeartbeatResponse(error_code=error)


class GatheringRig(Rig):
    """A runtime whose machine takes commits together, where there are many connections."""

    def __init__(self) -> None:
        super().__init__()
        self.has_many_connections = True
        self.machine = Gatherer(self.events)
        self.machine.say = lambda token: accepted(token, RECORD)
        self.runtime = CoordinatorRuntime(
            "test",
            self.machine,
            self.log,
            self.scheduler,
            self.deferred.append,
            connection_load=self,
        )
        self.runtime.load()
        self.events.clear()

    def commit(self, *, is_large: bool = False) -> None:
        self.runtime.submit(
            OffsetCommitRequest("g"),
            self.answers.append,
            9,
            "c",
            "/h",
            "User:u",
            is_large=is_large,
        )

    def end_turn(self) -> None:
        """Does what was put off."""
        (go_on,) = self.deferred
        self.deferred.clear()
        go_on()


def test_commits_of_one_turn_of_the_loop_are_one_append() -> None:
    rig = GatheringRig()
    for _ in range(3):
        rig.commit()
    rig.submit()  # does not wait, and is not held up
    assert len(rig.answers) == 1
    rig.events.clear()
    rig.end_turn()
    assert rig.events == [
        ("handle_all", 3),
        ("append", 3, None),
        *[("replay", b"k", None)] * 3,
        ("written", 3),
    ]
    assert rig.codes() == [0, 0, 0, 0]
    assert rig.runtime.waiting == 0


def test_commits_that_waited_for_too_long_are_refused() -> None:
    rig = GatheringRig()
    for waits_ms, codes in ((5_000, [0, 0]), (5_001, [ErrorCode.REQUEST_TIMED_OUT] * 2)):
        rig.answers.clear()
        for _ in range(2):
            rig.commit()
        rig.clock.advance(waits_ms)
        rig.end_turn()
        assert rig.codes() == codes, f"after {waits_ms} ms"
    assert rig.runtime.waiting == 0
    assert [each for each in rig.events if isinstance(each, tuple) and each[0] == "append"] == [
        ("append", 2, None)
    ]


def test_commits_that_are_all_refused_write_nothing() -> None:
    rig = GatheringRig()
    rig.machine.say = lambda token: Result(replies=(Reply(token, HeartbeatResponse()),))
    for _ in range(2):
        rig.commit()
    rig.end_turn()
    assert rig.events == [("handle_all", 2)]
    assert rig.codes() == [0, 0]


def test_one_commit_alone_goes_its_usual_way() -> None:
    rig = GatheringRig()
    rig.commit()
    assert not rig.events
    rig.end_turn()
    write = [("append", 1, None), ("replay", b"k", None), ("written", 1)]
    assert rig.events == [("handle", "c"), *write]
    rig.has_many_connections = False
    rig.commit()
    assert not rig.deferred
    assert rig.codes() == [0, 0]


def test_commits_that_cannot_be_written_together_are_written_one_by_one() -> None:
    rig = GatheringRig()
    for _ in range(2):
        rig.commit()
    rig.log.full = True
    rig.end_turn()
    assert rig.events == [
        ("handle_all", 2),
        *[("handle", "c"), ("append_failed", ErrorCode.KAFKA_STORAGE_ERROR)] * 2,
    ]
    assert rig.codes() == [15, 15]


def test_a_bug_in_one_of_many_is_answered() -> None:
    rig = GatheringRig()

    def say(token: int) -> Result:
        if token == 1:
            raise RuntimeError("a bug")
        return accepted(token, RECORD)

    rig.machine.say = say
    for _ in range(2):
        rig.commit()
    rig.end_turn()
    assert rig.codes() == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]


def test_gathered_commits_are_written_before_the_coordinator_unloads() -> None:
    rig = GatheringRig()
    for _ in range(2):
        rig.commit()
    rig.runtime.unload(ErrorCode.NOT_COORDINATOR)
    assert rig.codes() == [0, 0]
    rig.end_turn()
    assert rig.codes() == [0, 0]


def test_unforeseen_write_failure_of_gathered_commits_answers_all_of_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = GatheringRig()

    rig.log.broken = True
    for _ in range(2):
        rig.commit()
    rig.end_turn()
    assert rig.codes() == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert rig.runtime.waiting == 0
    assert [each.levelname for each in caplog.records] == ["ERROR"] * 3
    for _ in range(2):
        rig.commit()
    rig.runtime.unload(ErrorCode.NOT_COORDINATOR)
    assert rig.runtime.state is RuntimeState.CLOSED
    assert rig.runtime.waiting == 0


def test_gathered_commits_are_written_before_due_timers_run() -> None:
    rig = GatheringRig()
    rig.machine.due = 1_010
    rig.submit()  # has the deadline noticed
    rig.events.clear()
    for _ in range(2):
        rig.commit()
    rig.clock.advance(10)
    rig.scheduler.run_due()
    assert rig.events[0] == ("handle_all", 2)
    assert rig.events[-1] == ("advance", 1_010)
    rig.end_turn()
    assert rig.codes() == [0, 0, 0]


def test_a_large_request_is_handled_in_steps_and_others_between_them() -> None:
    rig = GatheringRig()
    rig.commit(is_large=True)
    assert rig.events == ["step"]
    rig.submit()
    assert len(rig.answers) == 1
    for _ in range(3):
        rig.end_turn()
    assert rig.codes() == [0, 0]
    assert rig.events.count("step") == 3
    assert not rig.deferred


def test_large_records_are_encoded_in_steps_before_they_are_appended() -> None:
    rig = GatheringRig()
    rig.machine.say = lambda token: accepted(token, RECORD, is_large=True)
    rig.has_many_connections = False
    for changed in (False, True):
        rig.machine.has_changed = changed  # type: ignore[attr-defined]  # a Gatherer
        rig.events.clear()
        rig.answers.clear()
        rig.commit()
        decided = list(rig.events)
        for _ in range(3):
            assert not rig.answers
            rig.end_turn()
        assert rig.codes() == [0]
        # where its group has changed meanwhile, the request is decided again
        assert rig.events[: len(decided) * (1 + changed)] == decided * (1 + changed)
        assert not rig.deferred


def test_an_unprepared_request_is_prepared_and_its_records_are_encoded_in_steps() -> None:
    rig = GatheringRig()
    replies = (Reply(1, HeartbeatResponse(error_code=0)),)
    results = [UNPREPARED, Result((RECORD,), replies, is_large=True)]
    rig.machine.say = lambda _: results.pop(0)
    rig.has_many_connections = False
    rig.commit()
    for _ in range(5):
        assert not rig.answers
        rig.end_turn()
    assert rig.codes() == [0]
    assert rig.events.count("prepared") == 1
    assert (results, rig.deferred) == ([], [])


def test_a_large_request_in_progress_is_refused_when_the_coordinator_is_unloaded() -> None:
    rig = GatheringRig()
    rig.commit(is_large=True)
    rig.runtime.unload(ErrorCode.NOT_COORDINATOR)
    rig.end_turn()
    assert rig.codes() == [ErrorCode.NOT_COORDINATOR]


def test_a_bug_in_a_large_request_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    rig = GatheringRig()

    def fail(_: int) -> Result:
        raise RuntimeError("a bug")

    rig.machine.say = fail
    rig.commit(is_large=True)
    for _ in range(3):
        rig.end_turn()
    assert rig.codes() == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert "OffsetCommitRequest failed" in caplog.text
