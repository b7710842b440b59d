"""Name coordinators' records to compare with Kafka's classes and formatters, and keep what they answered.

`python -m tests.wire.coordinator_records.record_cases` writes the golden file anew.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from groupsdk.wire.coordinator_records import offsets_log, transaction_log
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, CoordinatorValue
from groupsdk.wire.coordinator_records.formatter import (
    format_group_metadata,
    format_offset,
    format_transaction,
)
from groupsdk.wire.coordinator_records.offset_commit import write_offset_key, write_offset_value
from tests.conformance.cases import FILLINGS, to_json
from tests.conformance.golden import shorten
from tests.support import golden
from tests.support.java import JavaProgram
from tests.wire.coordinator_records import vectors


RELEASE = "4.3.1"
"""The release of Kafka to compare with."""

GOLDEN = Path(__file__).parent / "golden_records.json.gz"
_PROGRAM = Path(__file__).parent / "java" / "CoordinatorRecords.java"

KEYS: list[type[CoordinatorKey]] = [
    *offsets_log.KEYS.values(),
    *transaction_log.KEYS.values(),
]

FORMATTERS = {
    "OffsetsMessageFormatter": format_offset,
    "GroupMetadataMessageFormatter": format_group_metadata,
    "TransactionLogMessageFormatter": format_transaction,
}

_ODD_TEXT = '"\\/ \n\r\t\b\f\x00\x1f\x7f ß \u2028 \U0001f600'
_ODD_KEY = write_offset_key(_ODD_TEXT, _ODD_TEXT, -1)
_ODD_VALUE = write_offset_value(-5, -1, _ODD_TEXT, -1)


@dataclass(frozen=True, slots=True)
class Case:
    """One key or value to write in one version."""

    record: CoordinatorKey | CoordinatorValue
    version: int
    filling: str

    @property
    def name(self) -> str:
        """Name the case in the golden file."""
        return f"{type(self.record).__name__} {self.version} {self.filling}"

    def question(self) -> dict[str, Any]:
        """Put the case the way the Java program reads it."""
        return {
            "record": type(self.record).__name__,
            "version": self.version,
            "fields": to_json(self.record),
        }


def cases() -> Iterator[Case]:
    """Go through all keys and values, all versions and fillings."""
    for key in KEYS:
        for declared in (key, key.value_class):
            for version in range(declared.api.max_version + 1):
                yield Case(declared(), version, "defaults")
                for name, filling in FILLINGS.items():
                    yield Case(filling().struct(declared, version), version, name)


def formatted() -> Iterator[tuple[str, dict[str, Any]]]:
    """Name records to print, and put them the way the Java program reads them."""
    values: list[str | None] = [None]
    values += vectors.OFFSET_VALUES
    groups = [None, vectors.EMPTY_GROUP_VALUE, *vectors.GROUP_VALUES.values()]
    transactions = [None, *vectors.TRANSACTION_VALUES]
    records: list[tuple[str | None, str | None]] = [
        (None, vectors.OFFSET_VALUES[0]),
        (vectors.LEGACY_OFFSET_KEY, vectors.OFFSET_VALUES[0]),
        (vectors.LEGACY_OFFSET_KEY, None),
        *((vectors.OFFSET_KEY, value) for value in values),
        *((vectors.GROUP_KEY, value) for value in groups),
        ("0003000167", "0000000000030100080000000000000009"),
        ("0063000167", "0000"),
        (_ODD_KEY.hex(), _ODD_VALUE.hex()),
    ]
    for name in FORMATTERS:
        asked = records
        if name.startswith("Transaction"):
            asked = [(None, None), *((vectors.TRANSACTION_KEY, value) for value in transactions)]
        for number, (key, value) in enumerate(asked):
            yield f"{name} {number}", {"format": name, "key": key, "value": value}


def questions() -> Iterator[tuple[str, dict[str, Any]]]:
    for case in cases():
        yield case.name, case.question()
    yield from formatted()


def ask() -> dict[str, Any]:
    """Have Kafka answer everything."""
    jars = [f"org.apache.kafka:kafka_2.13:{RELEASE}", f"org.apache.kafka:kafka-tools:{RELEASE}"]
    with JavaProgram(_PROGRAM, jars) as program:
        return {name: _answer(program.ask(json.dumps(asked))) for name, asked in questions()}


def _answer(line: str) -> Any:
    answer = json.loads(line)
    if isinstance(answer, dict):
        return {name: shorten(text) for name, text in answer.items()}
    return answer


@cache
def read_golden() -> dict[str, Any]:
    """Read what Kafka answered."""
    answers: dict[str, Any] = golden.read_golden(GOLDEN)
    return answers


def main() -> None:
    golden.write_golden(GOLDEN, ask())


if __name__ == "__main__":
    main()
