"""Tests the dump of segments: all of a real topic, as Kafka's own tool printed it."""

import gzip
from pathlib import Path

import pytest

from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, read_value, write
from groupsdk.wire.coordinator_records.dump import dump_segment
from groupsdk.wire.coordinator_records.offsets_log import KEYS, read_key
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import Record, read_records


SAMPLE = Path(__file__).parent / "sample"
SEGMENTS = sorted((SAMPLE / "segments").glob("*/*.log"))
PARTITIONS = sorted({path.parent.name for path in SEGMENTS})


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_dump_of_a_real_topic_is_that_of_kafka(partition: str) -> None:
    expected = gzip.decompress((SAMPLE / "dump" / f"{partition}.txt.gz").read_bytes()).decode()

    lines = []
    for path in SEGMENTS:
        if path.parent.name == partition:
            lines.append(f"Dumping {partition}/{path.name}")
            lines.append(f"Log starting offset: {int(path.stem)}")
            lines += dump_segment(path.read_bytes(), KEYS)

    assert lines == expected.splitlines()


def records() -> list[tuple[CoordinatorKey, Record]]:
    """All records of the sample but the control records."""
    found = []
    for path in SEGMENTS:
        segment = path.read_bytes()
        for header, position in batches(segment):
            if not header.is_control:
                for record in read_records(segment, position):
                    assert record.key is not None
                    key = read_key(record.key)
                    assert key is not None
                    found.append((key, record))
    return found


def test_a_real_topic_is_written_again_byte_for_byte() -> None:
    found = records()

    assert len(found) == 1032
    assert sum(record.value is None for _, record in found) == 17
    for key, record in found:
        assert write(key, read_value(key, record.value)) == (record.key, record.value)
