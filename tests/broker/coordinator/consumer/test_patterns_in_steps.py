"""Test that the patterns of a group are matched some topics at a time, so that other requests have their turn."""

from typing import Any
from uuid import UUID

import pytest

from groupsdk.broker.coordinator.consumer import regex_resolution
from groupsdk.broker.coordinator.consumer.regex_resolution import Resolution
from groupsdk.broker.coordinator.consumer.topics import TopicInfo
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from tests.broker.coordinator.consumer.rig import Rig, Topics


class Image:
    """Topics that only have names."""

    def __init__(self, count: int) -> None:
        self.version = 7
        self.all_names = [f"t{number}" for number in range(count)]

    def topic(self, name: str) -> TopicInfo | None:
        """Returns nothing: only names are asked for."""

    def topic_by_id(self, topic_id: UUID) -> TopicInfo | None:
        """Returns nothing: only names are asked for."""

    def names(self) -> list[str]:
        """Returns the names of all topics."""
        return self.all_names


@pytest.mark.parametrize(("regexes", "steps"), [({"t.*"}, 5), ({"t.*", ".*7"}, 10)])
def test_a_step_has_a_bounded_number_of_matches(
    regexes: set[str], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regex_resolution, "_MATCHES_AT_ONCE", 20)
    resolution = Resolution(regexes, Image(100))
    assert [resolution.go_on() for _ in range(steps)] == [False] * (steps - 1) + [True]
    found = resolution.found(now_ms=5)
    assert found.keys() == regexes
    assert found["t.*"].topics == {f"t{number}" for number in range(100)}
    assert (found["t.*"].version, found["t.*"].timestamp_ms) == (7, 5)


def test_topics_created_meanwhile_do_not_count() -> None:
    image = Image(3)
    resolution = Resolution({"t.*"}, image)
    image.all_names.append("t3")
    image.version = 8
    assert resolution.go_on()
    (found,) = resolution.found(now_ms=5).values()
    assert found.topics == {"t0", "t1", "t2"}
    assert found.version == 7


def test_without_topics_a_pattern_is_resolved_at_once() -> None:
    resolution = Resolution({"t.*"}, Image(0))
    assert resolution.go_on()
    assert resolution.found(now_ms=5)["t.*"].topics == frozenset()


def test_a_group_with_a_pattern_is_answered_before_all_topics_are_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(regex_resolution, "_MATCHES_AT_ONCE", 5)
    rig = Rig(Topics(**{f"t{number}": 1 for number in range(12)}))

    def heartbeat(epoch: int, **fields: Any) -> int:
        return int(rig.ask(ConsumerGroupHeartbeatRequest("g", "m1", epoch, **fields)).member_epoch)

    epoch = heartbeat(
        0, rebalance_timeout_ms=1_000, subscribed_topic_regex="t.*", topic_partitions=()
    )
    steps = 0
    while not rig.do(rig.shard.advance(rig.now_ms)):
        assert heartbeat(epoch) == epoch
        rig.now_ms += 10
        steps += 1
    assert steps == 2  # 5 and 10 of 12 topics were matched before
    assert heartbeat(epoch) > epoch
