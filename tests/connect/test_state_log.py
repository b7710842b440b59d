"""Holds that what a former owner writes too late counts nowhere, and is lost to nobody, compacted or not."""

from random import Random

import pytest
from hypothesis import given, strategies as st

from groupsdk.connect.store.kafka_state import FORGET, StateLog, state_key, state_value
from groupsdk.connect.tasks.task import TaskState
from tests.support.cases import each_case


KEY = ("crawler", "site-1")
LogRecord = tuple[int, TaskState | None, bool]
"""A token, a state or None for a fence, and whether the record is a deletion."""


def read(records: list[LogRecord]) -> StateLog:
    log = StateLog()
    for token, state, deleted in records:
        log.apply(state_key(KEY, token), None if deleted else state_value(state))
    return log


def compacted(records: list[LogRecord]) -> list[LogRecord]:
    """Keep the last record of each token."""
    last = {token: place for place, (token, _, _) in enumerate(records)}
    return [each for place, each in enumerate(records) if last[each[0]] == place]


def test_the_last_state_counts() -> None:
    assert read([(3, None, False), (3, {"n": 1}, False), (3, {"n": 2}, False)]).get(KEY) == (
        3,
        {"n": 2},
    )
    assert StateLog().get(KEY) == (-1, None)


def test_forgotten_state_is_gone_and_a_late_write_is_void() -> None:
    log = read([(3, {"n": 1}, False), (4, None, False)])
    assert log.of("crawler") == {"site-1": {"n": 1}}
    log.apply(state_key(KEY, 4), FORGET)
    log.apply(state_key(KEY, 3), state_value({"late": True}))
    assert log.get(KEY) == (4, None)
    assert log.of("crawler") == {}
    log.apply(state_key(KEY, 5), state_value(None))
    assert log.get(KEY) == (5, None)


def test_a_new_owner_takes_the_state_over_and_what_comes_late_is_void() -> None:
    log = read([(3, {"n": 1}, False), (5, None, False), (3, {"n": 99}, False)])
    assert log.get(KEY) == (5, {"n": 1})
    assert log.outdated(KEY) == [3]
    assert log.last_token == 5


def test_deleted_records_take_nothing_away() -> None:
    log = read([(3, {"n": 1}, False), (5, None, False), (5, {"n": 1}, False), (3, None, True)])
    assert log.get(KEY) == (5, {"n": 1})
    assert log.outdated(KEY) == []


@each_case("seed", range(200))
def test_owners_that_overlap_lose_nothing_that_was_acknowledged_in_time(seed: int) -> None:
    chance = Random(seed)
    records: list[LogRecord] = []
    expected: TaskState | None = None
    token = 0
    for _ in range(6):
        token += chance.randint(1, 3)
        records.append((token, None, False))
        # the new owner writes the state under its own token, then deletes the former owners' records
        log = read(compacted(records) if chance.random() < 0.5 else records)
        assert log.get(KEY) == (token, expected)
        if expected is not None:
            records.append((token, expected, False))
            records += [(old, None, True) for old in log.outdated(KEY)]
        for _ in range(chance.randint(0, 3)):
            expected = {"n": chance.random()}
            records.append((token, expected, False))
            if chance.random() < 0.5 and token > 1:
                # a former owner that was paused
                records.append((chance.randint(0, token - 1), {"late": True}, False))
    assert read(records).get(KEY) == (token, expected)
    if expected is not None:
        assert read(compacted(records)).get(KEY) == (token, expected)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_state_records_of_other_programs_are_ignored(key: bytes, value: bytes | None) -> None:
    log = StateLog()
    log.apply(key, value)
    assert log.last_token == -1


@pytest.mark.parametrize(
    "key",
    [b'["a",{"task":"t","generation":-1}]', b'["a",{"task":"t","generation":true}]', b"[1,2]"],
)
def test_tokens_out_of_bounds_are_passed_over(key: bytes) -> None:
    log = StateLog()
    log.apply(key, state_value({"n": 1}))
    assert log.last_token == -1


def test_state_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        state_value({"n": float("nan")})
