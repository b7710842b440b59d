"""Tests the declared records of coordinators against Kafka's own classes, byte for byte."""

from typing import Any

import pytest

from groupsdk.errors import EncodeError
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    read_key,
    read_value,
    write,
    write_key,
    write_value,
)
from groupsdk.wire.coordinator_records.formatter import json_line, to_json
from groupsdk.wire.schema import declared_fields
from tests.conformance.golden import shorten
from tests.support.cases import each_case
from tests.wire.coordinator_records.record_cases import KEYS, Case, cases, read_golden


REFUSED = "refused"


def written(case: Case) -> bytes:
    if isinstance(case.record, CoordinatorKey):
        return write_key(case.record)
    return write_value(case.record, case.version)


def read_back(
    key: type[CoordinatorKey], case: Case, data: bytes
) -> CoordinatorKey | CoordinatorValue | None:
    if isinstance(case.record, CoordinatorKey):
        return read_key({key.record_type: key}, data)
    return read_value(key(), data)


def as_read(case: Case) -> CoordinatorKey | CoordinatorValue:
    """Builds what a reader makes of a case: the fields that the version lacks are at their defaults."""

    def kept(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(kept, value))
        if not hasattr(value, "unknown_tagged_fields"):
            return value
        fields = declared_fields(type(value))
        known = [each.name for each in fields if case.version in each.versions]
        return type(value)(**{name: kept(getattr(value, name)) for name in known})

    found: CoordinatorKey | CoordinatorValue = kept(case.record)
    return found


@each_case("key", KEYS)
def test_record_is_written_read_and_printed_as_by_kafka(key: type[CoordinatorKey]) -> None:
    found = [case for case in cases() if type(case.record) in (key, key.value_class)]
    assert len(found) >= 20
    for case in found:
        expected = read_golden()[case.name]
        if expected == REFUSED:
            with pytest.raises(EncodeError):
                written(case)
            continue
        data = written(case)
        assert shorten(data.hex()) == expected["hex"], case.name
        read = read_back(key, case, data)
        assert read == as_read(case), case.name
        assert shorten(json_line(to_json(read, case.version))) == expected["json"], case.name


def test_a_member_of_the_newer_protocol_has_no_classic_metadata() -> None:
    key = ConsumerGroupMemberMetadataKey("g", "m")
    value = ConsumerGroupMemberMetadataValue(None, None, "c", "h", ("t",), "", 5, None, None)

    _, data = write(key, value)

    # one tagged field, number 0, one byte: a 0 for null
    assert (data or b"").endswith(bytes.fromhex("00000005 00 01 00 01 00"))
    assert read_value(key, data) == value
