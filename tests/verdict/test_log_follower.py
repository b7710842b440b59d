"""Checks the bounds of a follower of the groups' log: how much it reads, for how long, and what it says where it does not."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from pytest_mock import MockerFixture

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.verdict.log_follower import NOT_READ, SHARE, LogFollower
from groupsdk.verdict.observation import KnownLog
from groupsdk.verdict.recent_log import RecentLogs
from tests.support.workers import eventually


SKIPPED = 40


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}) as running:
        yield running


def commit(broker: EmbeddedBroker, group: str, first: int, count: int) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}
    with Consumer(settings) as consumer:
        for offset in range(first, first + count):
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)


def follower(broker: EmbeddedBroker, *patterns: str) -> LogFollower:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return LogFollower(settings, patterns, timeout_s=0.5, interval_s=0.02)


async def known_when(log: LogFollower, holds: Callable[[KnownLog], bool]) -> KnownLog:
    await asyncio.to_thread(eventually, lambda: holds(log.known))
    return log.known


def test_wanted_groups_are_followed_from_what_was_before(broker: EmbeddedBroker) -> None:
    commit(broker, "orders-1", 0, 3)
    commit(broker, "other", 0, 1)

    async def look() -> tuple[KnownLog, KnownLog]:
        log = follower(broker, "orders-*")
        assert log.known.text.startswith("the groups' log is being read")
        async with log.beside():
            await log.has_read()
            first = log.known
            await asyncio.to_thread(commit, broker, "orders-2", 0, 1)
            return first, await known_when(log, lambda known: len(known.groups) == 2)

    first, then = asyncio.run(look())

    assert set(first.groups) == {"orders-1"}
    assert first.groups["orders-1"].committed_ms is not None
    assert (first.text, first.retention_ms) == ("", 7 * 24 * 3_600_000)
    assert set(then.groups) == {"orders-1", "orders-2"}


def test_records_beyond_the_bound_are_skipped_and_their_groups_begin_anew(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupsdk.verdict.log_follower._MOST", SKIPPED)
    commit(broker, "g", 0, 3)

    async def look() -> tuple[KnownLog, KnownLog]:
        log = follower(broker)
        async with log.beside():
            await log.has_read()
            first = log.known
        await asyncio.to_thread(commit, broker, "g", 3, 2 * SKIPPED)
        # it goes on where it was
        async with log.beside():
            begun = first.groups["g"].past.since_ms
            return first, await known_when(
                log, lambda known: known.groups["g"].past.since_ms > begun
            )

    first, then = asyncio.run(look())

    assert then.groups["g"].past.since_ms > first.groups["g"].past.since_ms
    assert first.text == then.text == ""


def test_reading_rests_for_nine_tenths_of_the_time(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(broker, "g", 0, 1)
    rests: list[float] = []
    clock = iter(range(1_000_000))
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    # each piece of work takes a second of a core
    monkeypatch.setattr("groupsdk.verdict.log_follower.time.thread_time", lambda: next(clock))
    monkeypatch.setattr("groupsdk.verdict.log_follower.asyncio.sleep", rest)

    async def look() -> None:
        log = follower(broker)
        async with log.beside():
            await log.has_read()

    asyncio.run(look())

    assert SHARE == 0.1
    assert [round(each) for each in rests].count(9) >= 2


def test_refusal_is_said_and_ends_with_the_right(broker: EmbeddedBroker) -> None:
    commit(broker, "g", 0, 1)
    fault = broker.faults.answer("ListOffsets", ErrorCode.REQUEST_TIMED_OUT, times=None)

    async def look() -> tuple[KnownLog, KnownLog]:
        log = follower(broker)
        async with log.beside():
            refused = await known_when(log, lambda known: known.problem is not None)
            fault.remove()
            return refused, await known_when(log, lambda known: known.problem is None)

    refused, read = asyncio.run(look())

    assert "the groups' log is not read" in refused.text
    assert "what was before is unknown" in refused.text
    assert (set(read.groups), read.text) == ({"g"}, "")


def test_watcher_goes_on_without_a_log_that_cannot_be_explained(
    broker: EmbeddedBroker, mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    commit(broker, "g", 0, 1)
    mocker.patch.object(RecentLogs, "known", side_effect=ValueError("odd"))

    async def look() -> KnownLog:
        log = follower(broker)
        async with log.beside():
            await log.has_read()
        return log.known

    assert "the groups' log is not read: ValueError('odd')" in asyncio.run(look()).text
    assert "reading the groups' log failed" in caplog.text


def test_log_that_does_not_exist_yet_is_no_problem(broker: EmbeddedBroker) -> None:
    async def look() -> KnownLog:
        log = follower(broker)
        async with log.beside():
            await log.has_read()
        return log.known

    assert asyncio.run(look()).text == ""
    assert "switched off" in NOT_READ.text
