"""The order of Java's hash tables, and what it keeps of names that clients choose."""

from groupsdk.broker.coordinator.hash_order import _kept_hash, text_hash
from groupsdk.wire.coordinator_records.partitioner import java_hash


def test_hashes_of_long_names_are_right_and_not_kept_with_the_names() -> None:
    before = _kept_hash.cache_info().currsize
    for length in (257, 32_000):
        assert text_hash("n" * length) == java_hash("n" * length) & 0xFFFFFFFF
    assert _kept_hash.cache_info().currsize == before
