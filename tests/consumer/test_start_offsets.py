"""Test where reading starts: committed offsets that are fetched, refused, part of transactions, or outdated."""

import pytest

from groupsdk.errors import DecodeError, GroupAuthorizationError, RequestTimeoutError
from groupsdk.wire.messages.offsets import OffsetFetchRequest
from tests.consumer.rig import Bench, partitions


def fetches(bench: Bench) -> int:
    return sum(isinstance(each, OffsetFetchRequest) for each in bench.group.requests)


def test_start_offsets_wait_for_open_transactions() -> None:
    bench = Bench()
    bench.fill(3)
    bench.group.offsets.update(dict.fromkeys(partitions("t-0", "t-1", "t-2"), 1))
    bench.group.unstable = set(partitions("t-1"))
    bench.consumer.subscribe("t")
    assert sorted(bench.read(timeout=0.5)) == ["t-0@1", "t-0@2", "t-2@1", "t-2@2"]
    bench.group.unstable = set()
    assert bench.read() == ["t-1@1", "t-1@2"]
    bench.group.unstable = set(partitions("t-2"))
    with pytest.raises(RequestTimeoutError, match="1 partitions are part of a transaction"):
        bench.consumer.committed(partitions("t-1", "t-2"), timeout=1)


def test_a_fetch_that_fails_by_something_passing_is_repeated() -> None:
    bench = Bench()
    bench.fill(1)
    bench.group.codes[OffsetFetchRequest].extend([14, 16, 15])
    bench.consumer.subscribe("t")
    assert len(bench.read(timeout=5)) == 3
    assert fetches(bench) == 4


def test_a_fetch_that_is_forbidden_is_raised() -> None:
    bench = Bench()
    bench.group.codes[OffsetFetchRequest].append(30)
    bench.consumer.subscribe("t")
    with pytest.raises(GroupAuthorizationError):
        bench.read()


def test_a_fetch_that_stays_forbidden_is_raised_with_backoff() -> None:
    bench = Bench()
    bench.fill(1)
    bench.group.codes[OffsetFetchRequest].extend([30] * 1_000)
    bench.consumer.subscribe("t")
    raised, until_ms = 0, bench.clock.now_ms() + 20_000
    while bench.clock.now_ms() < until_ms:
        try:
            bench.read(timeout=0.1)
        except GroupAuthorizationError:
            raised += 1
    assert 15 <= raised <= 30  # at the full backoff of a second, once it has grown
    bench.group.codes[OffsetFetchRequest].clear()
    assert len(bench.read(timeout=5)) == 3


def test_an_answer_that_is_no_answer_is_told_once() -> None:
    """It ends the connection, which the member tells, and the request, which nobody else has made."""
    bench = Bench()
    bench.fill(1)
    bench.group.scripts[OffsetFetchRequest].append(None)
    bench.consumer.subscribe("t")
    bench.read(timeout=0.1)
    bench.group.driver.disconnect(DecodeError("garbled"))
    bench.group.driver.found()
    told, read = list[DecodeError](), list[str]()
    while len(read) < 3:
        try:
            read += bench.read(timeout=0.1)
        except DecodeError as error:
            told.append(error)
    assert len(told) == 1


def test_an_offset_that_was_asked_for_before_a_rebalance_is_void() -> None:
    bench = Bench()
    bench.fill(9)
    bench.group.scripts[OffsetFetchRequest].append(None)
    bench.consumer.subscribe("t")
    bench.read(timeout=0.1)
    assert bench.session.start_offsets._fetching is not None
    _, answer, _ = bench.session.start_offsets._fetching
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0)
    assert not answer.done()
    send = bench.group.driver.outstanding[0]
    assert isinstance(send.request, OffsetFetchRequest)
    stale = bench.group._fetch(send.request, 0)
    # the next owner has committed meanwhile, and the partitions have come back
    bench.group.offsets.update(dict.fromkeys(partitions("t-0", "t-1", "t-2"), 7))
    bench.group.answer(stale)
    assert sorted(bench.read()) == [f"t-{n}@{i}" for n in range(3) for i in (7, 8)]
