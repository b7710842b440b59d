"""Tests that every type of record in `__consumer_offsets` is known, by the name of Kafka's class."""

from groupsdk.wire.coordinator_records import offsets_log
from groupsdk.wire.coordinator_records.consumer_group import ConsumerGroupMetadataKey
from groupsdk.wire.coordinator_records.declaration import write_key


def test_all_types_are_known_but_the_two_that_kafka_does_not_use() -> None:
    assert sorted(offsets_log.KEYS) == [each for each in range(24) if each not in (9, 18)]


def test_keys_and_values_are_named_alike() -> None:
    for key in offsets_log.KEYS.values():
        assert key.value_class.__name__ == key.__name__.removesuffix("Key") + "Value"


def test_every_key_is_read_as_its_own_class() -> None:
    for declared in offsets_log.KEYS.values():
        assert offsets_log.read_key(write_key(declared())) == declared()
    assert offsets_log.read_key(bytes.fromhex("0003000167")) == ConsumerGroupMetadataKey("g")
    assert offsets_log.read_key(bytes.fromhex("0012000167")) is None
