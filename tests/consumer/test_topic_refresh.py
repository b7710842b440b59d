"""Test that topic metadata is fetched between two batches of records."""

from groupsdk.wire.messages.metadata import MetadataRequest
from tests.consumer.rig import Bench


def test_deleted_topics_cause_a_rebalance_without_them() -> None:
    bench = Bench(metadata_max_age_ms=10_000)
    bench.consumer.subscribe("t")
    bench.read(timeout=0.3)
    before = sum(isinstance(each, MetadataRequest) for each in bench.group.requests)
    bench.group.topics = {}
    for _ in range(15):
        bench.read(timeout=1)
    after = sum(isinstance(each, MetadataRequest) for each in bench.group.requests)
    assert after > before
    assert bench.consumer.assignment() == []  # deleted, and the leader has seen it
    assert bench.consumer.generation().generation_id == 2
