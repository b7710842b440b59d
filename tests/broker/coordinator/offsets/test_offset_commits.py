from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    LogRecord,
    ProducerStamp,
    RequestContext,
    Result,
)
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.errors import EncodeError
from groupsdk.wire.coordinator_records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest
from groupsdk.wire.schema import Response
from tests.broker.coordinator.group.driving import GROUP, PRODUCER, QUICK, SESSION_MS, Batch, Driver


OK = ErrorCode.NONE
TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE


def read(record: LogRecord) -> tuple[OffsetCommitKey, OffsetCommitValue]:
    key = read_key(record.key)
    assert isinstance(key, OffsetCommitKey)
    value = read_value(key, record.value)
    assert isinstance(value, OffsetCommitValue)
    return key, value


class TestCommits:
    def test_an_offset_is_written_and_served(self) -> None:
        driver = Driver()

        assert driver.commit({0: 5, 2: 7}, metadata="m") == [OK, OK]

        assert driver.fetch(0, 1, 2) == [(5, OK), (-1, OK), (7, OK)]
        key, value = read(driver.records[-1])
        assert key == OffsetCommitKey(GROUP, "t", 2)
        assert value == OffsetCommitValue(7, -1, "m", driver.now_ms)
        assert driver.records[-1].value is not None
        assert driver.records[-1].value[:2] == b"\0\4"

    def test_without_members_it_makes_a_simple_group(self) -> None:
        driver = Driver()

        driver.commit({0: 5})

        described = driver.describe()
        assert (described.group_state, described.protocol_type) == ("Empty", "")
        assert driver.group_values() == []

    def test_a_group_may_have_no_name(self) -> None:
        assert Driver().commit({0: 5}, group_id="") == [OK]

    @pytest.mark.parametrize(
        ("metadata", "error"),
        [
            (None, OK),
            ("x" * 4_096, OK),
            ("x" * 4_097, TOO_LARGE),
            ("é" * 4_096, OK),
            ("\U0001f600" * 2_048, OK),
            ("\U0001f600" * 2_048 + "x", TOO_LARGE),
        ],
    )
    def test_metadata_is_measured_in_utf16(self, metadata: str | None, error: ErrorCode) -> None:
        driver = Driver()

        assert driver.commit({0: 5}, metadata=metadata) == [error]

        stored = driver.shard.offsets(GROUP)
        assert [each.metadata for each in stored.values()] == ([] if error else [metadata or ""])

    def test_commit_metadata_that_no_record_can_carry_is_too_large_whatever_the_limit(self) -> None:
        driver = Driver(GroupConfig(offset_metadata_max_bytes=100_000))

        assert driver.commit({0: 5}, metadata="x" * 40_000) == [TOO_LARGE]

    def test_the_others_of_the_request_go_through(self) -> None:
        driver = Driver()
        good = topic("t", offset_of(0, 9), offset_of(1, 9, "x" * 5_000), offset_of(2, 9))

        answer = driver.ask(OffsetCommitRequest(GROUP, topics=(good,)))

        assert [each.error_code for each in answer.topics[0].partitions] == [OK, TOO_LARGE, OK]
        assert driver.fetch(0, 1, 2) == [(9, OK), (-1, OK), (9, OK)]

    def test_a_retention_time_is_written_with_the_version_that_has_it(self) -> None:
        driver = Driver()

        driver.commit({0: 5}, version=4, retention_time_ms=1_000)

        _, value = read(driver.records[-1])
        assert value.expire_timestamp == driver.now_ms + 1_000
        assert driver.records[-1].value is not None
        assert driver.records[-1].value[:2] == b"\0\1"

    def test_a_members_commit_keeps_its_session(self, driver: Driver) -> None:
        (member,) = driver.stable()

        for offset in range(5):
            driver.pass_ms(SESSION_MS - 1)
            assert driver.commit({0: offset}, member, 1) == [OK]

    @pytest.mark.parametrize(
        ("failure", "told"),
        [
            # runtime/test_contract.py has the whole table
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ],
    )
    def test_commit_that_cannot_be_written_is_not_visible(
        self, failure: ErrorCode, told: ErrorCode
    ) -> None:
        driver = Driver()
        driver.fail_next = failure

        assert driver.commit({0: 5, 1: 6}) == [told, told]

        assert driver.fetch(0, 1) == [(-1, OK), (-1, OK)]
        assert driver.shard.group_ids == ()

    def test_a_topic_without_partitions_is_not_answered(self) -> None:
        driver = Driver()

        answer = driver.ask(OffsetCommitRequest(GROUP, topics=(OffsetCommitRequestTopic("t"),)))

        assert answer.topics == ()


class TestTransactionalCommits:
    def test_they_count_once_the_transaction_commits(self) -> None:
        driver = Driver()
        driver.commit({0: 1})

        assert driver.commit_in_transaction({0: 5}) == [OK]
        assert driver.log[-1].producer == PRODUCER
        assert driver.fetch(0) == [(1, OK)]
        unstable = [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
        assert driver.fetch(0, require_stable=True) == unstable

        driver.marker(committed=True)
        assert driver.fetch(0, require_stable=True) == [(5, OK)]

    def test_they_are_dropped_when_it_aborts(self) -> None:
        driver = Driver()
        driver.commit_in_transaction({0: 5})

        driver.marker(committed=False)

        assert driver.fetch(0, require_stable=True) == [(-1, OK)]

    def test_a_later_record_wins_over_the_marker(self) -> None:
        driver = Driver()
        driver.commit_in_transaction({0: 5, 1: 6})
        driver.commit({0: 9})

        driver.marker(committed=True)

        assert driver.fetch(0, 1) == [(9, OK), (6, OK)]

    def test_those_of_other_generations_are_refused(self, driver: Driver) -> None:
        (member,) = driver.stable()
        for generation in (2, 3):
            driver.join(member)
            driver.pass_ms(0)
            assert driver.generation == generation
            driver.sync(member, generation, assignments={member: b"a"})

        for generation in (0, 1, 2, 4):
            assert driver.commit_in_transaction(
                {0: 1}, member_id=member, generation_id_or_member_epoch=generation
            ) == [ErrorCode.ILLEGAL_GENERATION]
            assert driver.commit({0: 1}, member, generation) == [ErrorCode.ILLEGAL_GENERATION]
        assert driver.commit({0: 1}, member, 3) == [OK]
        assert driver.commit_in_transaction(
            {0: 1}, member_id=member, generation_id_or_member_epoch=3
        ) == [OK]

    def test_they_do_not_keep_a_session(self, driver: Driver) -> None:
        (member,) = driver.stable()
        driver.pass_ms(SESSION_MS - 1)

        assert driver.commit_in_transaction(
            {0: 1}, member_id=member, generation_id_or_member_epoch=1
        ) == [OK]
        driver.pass_ms(101)

        assert driver.state == "Empty"

    def test_transactional_commit_without_a_group_id_is_refused(self) -> None:
        assert Driver().commit_in_transaction({0: 5}, group_id="") == [ErrorCode.INVALID_GROUP_ID]

    @pytest.mark.parametrize(
        ("failure", "version", "told"),
        [
            (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
            (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
            (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
            (ErrorCode.KAFKA_STORAGE_ERROR, 5, ErrorCode.NOT_COORDINATOR),
        ],
    )
    def test_transactional_commit_that_cannot_be_written_answers_in_producers_codes(
        self, failure: ErrorCode, version: int, told: ErrorCode
    ) -> None:
        driver = Driver()
        driver.fail_next = failure

        assert driver.commit_in_transaction({0: 5}, version=version) == [told]

        assert driver.fetch(0, require_stable=True) == [(-1, OK)]

    def test_without_topics_there_is_nothing_to_write(self) -> None:
        driver = Driver()

        assert driver.ask(TxnOffsetCommitRequest("x", GROUP)).topics == ()
        assert driver.log == []


def served() -> GroupCoordinatorShard:
    shard = GroupCoordinatorShard(GroupConfig(), lambda: "id")
    shard.loaded(1_000)
    return shard


def topic(name: str, *partitions: OffsetCommitRequestPartition) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(name, partitions=partitions)


def offset_of(index: int, offset: int, metadata: str = "") -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(index, offset, committed_metadata=metadata)


def write(shard: GroupCoordinatorShard, result: Result) -> list[LogRecord]:
    """Does what a runtime does with records, but for the log; returns them."""
    for record in result.records:
        shard.replay(record, result.producer)
    assert shard.written(result, 1_000) is NOTHING
    return [LogRecord(*pair) for each in result.records for pair in each.encoded()]


def test_a_commit_is_stored_as_it_is_loaded() -> None:
    topics = (
        topic("t", offset_of(0, 5), offset_of(1, 6), offset_of(0, 7)),
        topic("u", offset_of(0, 8, "m" * 5_000)),
        topic("v", offset_of(3, 9, "m")),
    )
    shard = served()
    request = OffsetCommitRequest("simple", topics=topics)
    result = shard.handle(request, RequestContext(1, 9), 1_000)
    log = write(shard, result)
    assert len(log) == 3
    # and nothing is left of it
    again = shard.handle(HeartbeatRequest("simple", 1, "m"), RequestContext(2, 4), 1_000)
    assert [each.token for each in again.replies] == [2]
    for one_by_one in (False, True):
        loaded = GroupCoordinatorShard(GroupConfig(), lambda: "id")
        for records in [[each] for each in log] if one_by_one else [log]:
            for record in loaded.decode(records):
                loaded.replay(record)
        assert loaded.group("simple") == shard.group("simple")
        assert dict(loaded.offsets("simple")) == dict(shard.offsets("simple"))
    assert {place: stored.offset for place, stored in shard.offsets("simple").items()} == {
        ("t", 0): 7,
        ("t", 1): 6,
        ("v", 3): 9,
    }


@pytest.mark.parametrize("count", [1, 100, 300])
def test_offsets_without_metadata_are_written_as_those_beside_one_that_has_some(count: int) -> None:
    plain = tuple(offset_of(index, 1_000 + index) for index in (*range(count), 0))
    written: list[list[LogRecord]] = []
    kept = []
    for more in ((), (topic("z", offset_of(0, 5, "m")),)):
        shard = served()
        topics = (
            topic("t", *plain),
            topic("u", *plain),
            *more,
        )
        result = shard.handle(
            OffsetCommitRequest("simple", topics=topics), RequestContext(1, 9), 1_000
        )
        log = write(shard, result)
        (reply,) = result.replies
        assert isinstance(reply.response, OffsetCommitResponse)
        for told in reply.response.topics[:2]:
            assert [each.partition_index for each in told.partitions] == [*range(count), 0]
            assert {each.error_code for each in told.partitions} == {OK}
        written.append(log[: 2 * count])
        stored = dict(shard.offsets("simple"))
        stored.pop(("z", 0), None)
        kept.append(stored)
    assert written[0] == written[1]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 2 * count
    assert [read(each)[0].partition for each in written[0][:count]] == [*range(count)]


def test_a_commit_of_nothing_that_can_be_stored_makes_no_group() -> None:
    shard = served()
    topics = (topic("u", offset_of(0, 8, "m" * 5_000)),)
    result = shard.handle(OffsetCommitRequest("g", topics=topics), RequestContext(1, 9), 1_000)
    assert not write(shard, result)
    assert shard.group_ids == ()


def test_commits_that_are_taken_together_are_what_they_are_one_by_one() -> None:
    def commit(group: str, offset: int, *, member: str = "") -> OffsetCommitRequest:
        topics = (topic("t", offset_of(0, offset), offset_of(1, offset)),)
        return OffsetCommitRequest(group, 1 if member else -1, member, topics=topics)

    requests = [
        (commit("g", 5), RequestContext(1, 9)),
        (commit("h", 6), RequestContext(2, 9)),
        (commit("g", 7), RequestContext(3, 9)),
        (commit("g", 8, member="nobody"), RequestContext(4, 9)),
    ]
    seen = []
    for together in (False, True):
        shard = served()
        replies: dict[int, Response] = {}
        results = (
            [shard.handle_all(requests, 1_000)]
            if together
            else (shard.handle(*each, 1_000) for each in requests)
        )
        for result in results:
            write(shard, result)
            replies |= {each.token: each.response for each in result.replies}
        groups = ("g", "h")
        offsets = [(shard.group(name), dict(shard.offsets(name))) for name in groups]
        seen.append((offsets, {token: replies[token] for token in (1, 2, 3)}))
        # the group comes to be when the first record is written, after all of them were looked at
        expected = ErrorCode.GROUP_ID_NOT_FOUND if together else ErrorCode.UNKNOWN_MEMBER_ID
        refused = replies[4]
        assert isinstance(refused, OffsetCommitResponse)
        assert refused.topics[0].partitions[0].error_code == expected
    assert seen[0] == seen[1]


def test_of_what_was_taken_together_nothing_is_kept_before_it_is_written() -> None:
    shard = served()
    topics = (topic("t", offset_of(0, 5)),)
    request = OffsetCommitRequest("g", topics=topics)
    result = shard.handle_all([(request, RequestContext(1, 9))], 1_000)
    assert shard.append_failed(result, ErrorCode.KAFKA_STORAGE_ERROR, 1_000) is NOTHING
    assert shard.group_ids == ()
    many = tuple(offset_of(each, 5) for each in range(11))
    assert shard.may_wait(request)
    assert not shard.may_wait(OffsetCommitRequest("g", topics=(topic("t", *many),)))
    assert not shard.may_wait(HeartbeatRequest("g", 1, "m"))
    answer = shard.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, 9)
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == -1


commits = st.builds(
    lambda who, topic, offsets, retention_ms: OffsetCommitRequest(
        who[0],
        who[1],
        who[2],
        retention_time_ms=retention_ms,
        topics=(
            OffsetCommitRequestTopic(topic, partitions=tuple(offset_of(*each) for each in offsets)),
        ),
    ),
    st.sampled_from(
        [(GROUP, 1, "c-id1"), (GROUP, 2, "c-id1"), (GROUP, 1, "x"), ("h", -1, ""), ("i", -1, "")]
    ),
    st.sampled_from(["t", "u"]),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 99), st.sampled_from(["", "m", "m" * 5_000])),
        max_size=4,
    ),
    st.sampled_from([-1, -1, 5_000]),
)
events = st.one_of(
    st.lists(commits, min_size=1, max_size=6),
    st.dictionaries(st.integers(0, 2), st.integers(0, 99), min_size=1),  # in a transaction
    st.booleans(),  # its end
    st.integers(0, 9_000),  # time passes
)


def after(
    happened: Sequence[list[OffsetCommitRequest] | dict[int, int] | bool | int], *, together: bool
) -> list[object]:
    """Has it happen to a stable group of one; returns all that can be seen, and again after a restart."""
    driver = Driver()
    assert driver.stable() == ["c-id1"]
    seen: list[object] = []

    def look(at: Driver) -> None:
        names = (GROUP, "h", "i")
        seen.append([(at.shard.group(name), dict(at.shard.offsets(name))) for name in names])

    for event in happened:
        if isinstance(event, bool):
            driver.marker(committed=event)
        elif isinstance(event, int):
            driver.pass_ms(event)
        elif isinstance(event, dict):
            driver.commit_in_transaction(event, group_id="h")
        elif together:
            asked = [(each, RequestContext(n, 4)) for n, each in enumerate(event)]
            result = driver.shard.handle_all(asked, driver.now_ms)
            written = write(driver.shard, result)
            if written:
                driver.log.append(Batch(tuple(written)))
            seen.append({each.token: each.response for each in result.replies})
        else:
            tokens = [driver.send(each, 4) for each in event]
            seen.append({n: driver.answers[token] for n, token in enumerate(tokens)})
        look(driver)
        seen.append(driver.shard.deadline_ms)
    seen.append(driver.records)
    look(driver.restarted())
    return seen


@settings(deadline=None)
@given(st.lists(events, max_size=8))
def test_whatever_else_happens_commits_taken_together_are_what_they_are_one_by_one(
    happened: list[list[OffsetCommitRequest] | dict[int, int] | bool | int],
) -> None:
    assert after(happened, together=True) == after(happened, together=False)


def in_steps(
    shard: GroupCoordinatorShard, request: Any, version: int, now_ms: int
) -> tuple[int, Result]:
    """Returns how many steps a large commit took, and its result."""
    results: list[Result] = []

    def run() -> Iterator[None]:
        results.append(
            (yield from shard.handle_in_steps(request, RequestContext(1, version), now_ms))
        )

    count = sum(1 for _ in run())
    return count, results[0]


@pytest.mark.parametrize("retention_ms", [-1, 1_000])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_large_commit_in_steps_has_the_records_and_answers_of_one_at_once(
    retention_ms: int, transactional: bool
) -> None:
    topics = tuple(
        OffsetCommitRequestTopic(
            f"t{number}",
            partitions=tuple(
                OffsetCommitRequestPartition(each, number, 3, "m" * (5_000 if each == 2 else each))
                for each in range(number % 4)
            ),
        )
        for number in range(500)
    )
    request: Any = OffsetCommitRequest("g", retention_time_ms=retention_ms, topics=topics)
    if transactional:
        # the elements have the same fields
        request = TxnOffsetCommitRequest("x", "g", 7, 1, topics=cast("Any", topics))
    results = []
    for is_large in (True, False):
        shard = served()
        if is_large:
            count, result = in_steps(shard, request, 3, 1_000)
            assert count == 10  # of 128 topics and partitions each
        else:
            result = shard.handle(request, RequestContext(1, 3), 1_000)
        pairs = [pair for each in result.records for pair in each.encoded()]
        for each in result.records:
            shard.replay(each, result.producer)
        shard.replay_marker(ProducerStamp(7, 1), committed=True)
        results.append((pairs, result.replies, result.producer, shard.offsets("g")))
    assert results[0] == results[1]
    assert len(results[0][3]) == sum(2 if n % 4 == 3 else n % 4 for n in range(500))


def test_a_large_commit_is_decided_by_the_group_as_it_is_after_the_last_step() -> None:
    topics = tuple(topic(f"t{number}", offset_of(0, 5)) for number in range(200))
    driver = Driver(QUICK)
    (member,) = driver.stable(1)
    request = OffsetCommitRequest(GROUP, 1, member, topics=topics)
    results: list[Result] = []

    def run() -> Iterator[None]:
        context = RequestContext(1, 9)
        results.append((yield from driver.shard.handle_in_steps(request, context, driver.now_ms)))

    steps = run()
    next(steps)
    driver.leave(member)
    assert len(list(steps)) == 3
    (result,) = results
    assert result.records == ()
    response = result.replies[0].response
    assert isinstance(response, OffsetCommitResponse)
    answers = response.topics
    assert {each.partitions[0].error_code for each in answers} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert len(answers) == 200


def test_a_large_commit_with_a_name_that_no_record_can_hold_is_refused_whole() -> None:
    shard = served()
    topics = (
        topic("t", offset_of(0, 5)),
        topic("t" * 40_000, offset_of(0, 5)),
    )
    _, result = in_steps(shard, OffsetCommitRequest("g", topics=topics), 9, 1_000)
    assert len(result.records) == 2
    with pytest.raises(EncodeError):
        [each.encoded() for each in result.records]
    assert result.refusal is not None
    (reply,) = result.refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert isinstance(reply.response, OffsetCommitResponse)
    assert [each.partitions[0].error_code for each in reply.response.topics] == [-1, -1]
