"""Test that the patterns of a group are matched some topics at a time, so that other requests have their turn."""

from typing import Any

import pytest

from groupsdk.broker.coordinator.consumer import regex_resolution
from groupsdk.broker.coordinator.consumer.regex_resolution import Resolution
from tests.broker.coordinator.consumer.rig import Rig, Topics


def image(count: int) -> Topics:
    return Topics(**{f"t{number}": 1 for number in range(count)})


@pytest.mark.parametrize(("regexes", "steps"), [({"t.*"}, 5), ({"t.*", ".*7"}, 10)])
def test_a_step_has_a_bounded_number_of_matches(
    regexes: set[str], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regex_resolution, "_MATCHES_AT_ONCE", 20)
    topics = image(100)
    resolution = Resolution(regexes, topics)
    assert [resolution.go_on() for _ in range(steps)] == [False] * (steps - 1) + [True]
    found = resolution.found(now_ms=5)
    assert found.keys() == regexes
    assert found["t.*"].topics == {f"t{number}" for number in range(100)}
    assert (found["t.*"].version, found["t.*"].timestamp_ms) == (topics.version, 5)


def test_topics_created_meanwhile_do_not_count() -> None:
    topics = image(3)
    before = topics.version
    resolution = Resolution({"t.*"}, topics)
    topics.create("t3", 1)
    assert resolution.go_on()
    (found,) = resolution.found(now_ms=5).values()
    assert found.topics == {"t0", "t1", "t2"}
    assert found.version == before


def test_without_topics_a_pattern_is_resolved_at_once() -> None:
    resolution = Resolution({"t.*"}, Topics())
    assert resolution.go_on()
    assert resolution.found(now_ms=5)["t.*"].topics == frozenset()


def test_a_group_with_a_pattern_is_answered_before_all_topics_are_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(regex_resolution, "_MATCHES_AT_ONCE", 5)
    rig = Rig(image(12))

    def heartbeat(epoch: int, **fields: Any) -> int:
        return int(rig.heartbeat("m1", epoch, **fields).member_epoch)

    epoch = heartbeat(0, subscribed_topic_names=None, subscribed_topic_regex="t.*")
    steps = 0
    while not rig.do(rig.shard.advance(rig.now_ms)):
        assert heartbeat(epoch) == epoch
        rig.now_ms += 10
        steps += 1
    assert steps == 2  # 5 and 10 of 12 topics were matched before
    assert heartbeat(epoch) > epoch
