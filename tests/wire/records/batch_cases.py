"""Name record batches to compare with Kafka's classes, and keep what they wrote.

`python -m tests.wire.records.batch_cases` writes the golden file anew.
"""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupsdk.wire.records.compression import Compression
from groupsdk.wire.records.record import Record, build_batch
from tests.support import golden
from tests.support.java import JavaProgram


RELEASE = "4.1.0"
"""The release of Kafka to compare with."""

GOLDEN = Path(__file__).parent / "golden_batches.json.gz"
_PROGRAM = Path(__file__).parent / "java" / "BatchBytes.java"
# the first is the library itself, the others are what it needs for its codecs and what the program needs
_JARS = (
    f"org.apache.kafka:kafka-clients:{RELEASE}",
    "com.fasterxml.jackson.core:jackson-databind:2.19.0",
)

_TEXT = b"the quick brown fox jumps over the lazy dog "


@dataclass(frozen=True, slots=True)
class Case:
    """One batch to write."""

    records: tuple[Record, ...]
    base_offset: int = 0
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    log_time: int | None = None
    horizon: int | None = None

    def build(self, compression: int = 0) -> bytes:
        """Write the batch with our own code."""
        return build_batch(
            self.records,
            self.base_offset,
            self.leader_epoch,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            transactional=self.transactional,
            compression=compression,
            timestamp_type=0 if self.log_time is None else 1,
            max_timestamp=self.log_time,
            delete_horizon_ms=self.horizon,
        )

    def question(self, compression: int = 0) -> dict[str, Any]:
        """Put the batch the way the Java program reads it."""
        return {
            "compression": compression,
            "base": self.base_offset,
            "epoch": self.leader_epoch,
            "producer": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "sequence": self.base_sequence,
            "transactional": self.transactional,
            "log_time": self.log_time,
            "horizon": self.horizon,
            "records": rows(self.records),
        }

    def as_read(self) -> list[Record]:
        """The records as a reader sees them."""
        if self.log_time is None:
            return list(self.records)
        return [record._replace(timestamp=self.log_time) for record in self.records]


CASES = {
    "one": Case((Record(0, 1000, b"k", b"v"),)),
    "nulls and nothing": Case((Record(0, 5, None, None), Record(1, 5, b"", b""))),
    "headers": Case(
        (Record(0, 5, b"k", b"v", (("ä", b"1"), ("", b""), ("n", None), ("n", b"x" * 200))),)
    ),
    "a producer": Case(
        (Record(10, 1000, b"k", b"v"), Record(11, 1001, b"k2", b"")), 10, 3, 5, 1, 0, True
    ),
    "sequences that wrap": Case(
        tuple(Record(at, 5, None, b"v") for at in range(3)), 0, 0, 2**63 - 1, 32767, 2**31 - 2
    ),
    "gaps": Case(
        (Record(2**40 + 7, 9, b"a", None), Record(2**40 + 70_000, 2**41, b"b", None)), 2**40
    ),
    "times that go back": Case((Record(0, 10**12, b"a", b""), Record(1, 5, b"b", b""))),
    "the time of the log": Case(
        (Record(0, 77, b"a", b""), Record(1, 99, b"b", b"")), log_time=123_456
    ),
    "a delete horizon": Case((Record(0, 77, b"a", None), Record(1, 99, b"b", b"")), horizon=5000),
    "many": Case(
        tuple(
            Record(at, at * 3, b"%d" % at, _TEXT * (at % 40), (("h", b"1"),)) for at in range(300)
        )
    ),
    "large": Case((Record(0, 1, b"k" * 40_000, _TEXT * 5_000), Record(1, 1, b"", bytes(3_000)))),
}


def rows(records: Sequence[Record]) -> list[Any]:
    """Put records the way the Java program reads and writes them."""

    def hexed(data: bytes | None) -> str | None:
        return None if data is None else data.hex()

    return [
        [
            *(each.offset, each.timestamp, hexed(each.key), hexed(each.value)),
            [[name, hexed(value)] for name, value in each.headers],
        ]
        for each in records
    ]


def program() -> AbstractContextManager[JavaProgram]:
    return JavaProgram(_PROGRAM, _JARS)


def ask(java: JavaProgram) -> dict[str, str]:
    """Have Kafka write every batch with every compression."""
    return {
        f"{codec.name} {name}": java.ask(json.dumps(case.question(codec)))
        for name, case in CASES.items()
        for codec in Compression
    }


def read_golden() -> dict[str, str]:
    """Read what Kafka wrote."""
    answers: dict[str, str] = golden.read_golden(GOLDEN)
    return answers


def main() -> None:
    with program() as java:
        golden.write_golden(GOLDEN, ask(java))


if __name__ == "__main__":
    main()
