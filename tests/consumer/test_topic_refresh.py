"""Test that topic metadata is fetched between two batches of records."""

import pytest

from groupsdk.wire.messages.metadata import MetadataRequest
from tests.consumer.rig import Bench


def test_deleted_topics_cause_a_rebalance_without_them() -> None:
    bench = Bench(metadata_max_age_ms=10_000).joined()
    before = sum(isinstance(each, MetadataRequest) for each in bench.group.requests)
    bench.group.topics = {}
    for _ in range(15):
        bench.read(timeout=1)
    after = sum(isinstance(each, MetadataRequest) for each in bench.group.requests)
    assert after > before
    assert bench.consumer.assignment() == []  # deleted, and the leader has seen it
    assert bench.consumer.generation().generation_id == 2


def test_the_consumer_protocol_names_topics_that_do_not_exist_and_looks_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(group_protocol="consumer", allow_auto_create_topics=True)
    bench.consumer.subscribe(["t", "absent"])
    for _ in range(8):
        bench.read(timeout=1)
    assert caplog.text.count("topics that do not exist: ['absent']") == 1
    asked = [each for each in bench.group.requests if isinstance(each, MetadataRequest)]
    named = [each for each in asked if [topic.name for topic in each.topics or ()] == ["absent"]]
    assert len(named) > 2
    assert all(each.allow_auto_topic_creation for each in named)


def test_a_missing_topic_added_to_a_running_subscription_is_named_without_a_new_assignment(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(group_protocol="consumer")
    bench.consumer.subscribe("t")
    bench.read(timeout=3)
    assert "do not exist" not in caplog.text
    held = bench.consumer.assignment()
    bench.consumer.subscribe(["t", "absent"])
    for _ in range(8):
        bench.read(timeout=1)
    assert bench.consumer.assignment() == held != []
    assert caplog.text.count("topics that do not exist: ['absent']") == 1
