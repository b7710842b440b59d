"""Compare declared records with what Kafka's classes answered."""

from functools import cache
from typing import Any

from groupsdk.errors import EncodeError
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    read_key,
    read_value,
    write_key,
    write_value,
)
from groupsdk.wire.coordinator_records.formatter import json_line, to_json
from groupsdk.wire.schema import declared_fields
from tests.conformance.golden import shorten
from tests.wire.coordinator_records.record_cases import Case, cases, read_golden


REFUSED = "refused"


@cache
def answers() -> dict[str, Any]:
    return read_golden()


def check(key: type[CoordinatorKey]) -> int:
    """Compares a key and its value in all versions and fillings; returns how many were compared."""
    found = [case for case in cases() if type(case.record) in (key, key.value_class)]
    for case in found:
        expected = answers()[case.name]
        if expected == REFUSED:
            try:
                written(case)
            except EncodeError:
                continue
            raise AssertionError(f"{case.name}: Kafka does not write it")
        data = written(case)
        assert shorten(data.hex()) == expected["hex"], case.name
        read = read_back(key, case, data)
        assert read == as_read(case), case.name
        assert shorten(json_line(to_json(read, case.version))) == expected["json"], case.name
    return len(found)


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
