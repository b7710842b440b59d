"""Tests the dump of segments: all of a real topic, as Kafka's own tool printed it."""

import gzip
import subprocess
from pathlib import Path

import pytest

from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_java
from groupsdk.wire.coordinator_records import transaction_log
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    KeyClasses,
    read_value,
    write,
)
from groupsdk.wire.coordinator_records.dump import dump_segment
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offsets_log import KEYS, read_key
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch, build_pairs, read_records
from tests.wire.coordinator_records.record_cases import RELEASE, cases


SAMPLE = Path(__file__).parents[2] / "history/data"
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


def typical_pairs(keys: KeyClasses) -> list[tuple[bytes | None, bytes | None]]:
    """A record of every type, each with a tombstone behind it, and one that no decoder knows."""
    found = {type(each.record): each.record for each in cases() if each.filling == "unicode"}
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for declared in keys.values():
        key, value = found[declared], found[declared.value_class]
        assert isinstance(key, CoordinatorKey)
        assert isinstance(value, CoordinatorValue)
        pairs += (write(key, value), write(key, None))
    pairs.append((bytes.fromhex("0063 00"), b""))
    return pairs


def typical_segment(keys: KeyClasses) -> bytes:
    """A segment with a batch of every kind."""
    pairs = typical_pairs(keys)
    records = [Record(100 + at, 5000 + at, *pair) for at, pair in enumerate(pairs)]
    headers = (("h", b"1"), ("ä", None))
    return b"".join(
        (
            build_pairs(pairs, 1000, 0, 3, base_sequence=0)[1],
            build_batch(records, 100, 4, 77, 1, 2**31 - 3, transactional=True, compression=3),
            build_marker(
                *(77, 1), committed=False, coordinator_epoch=9, timestamp_ms=7, base_offset=200
            ),
            build_marker(
                *(77, 1), committed=True, coordinator_epoch=9, timestamp_ms=7, base_offset=201
            ),
            build_batch(
                [records[0]._replace(offset=210)], 210, timestamp_type=1, max_timestamp=9999
            ),
            build_batch([records[1]._replace(offset=220)], 220, delete_horizon_ms=123),
            build_batch([records[0]._replace(offset=230, headers=headers)], 230, last_offset=239),
        )
    )


def test_a_type_that_is_not_known_is_named() -> None:
    (line,) = [each for each in dump_segment(typical_segment(KEYS), KEYS) if "offset: 44 " in each]

    assert line.endswith(" key: Unknown record type 99 at offset 44, skipping.")


def test_a_record_without_a_key_is_named() -> None:
    lines = list(dump_segment(build_pairs([(None, b"v")], 1)[1], KEYS))

    assert lines[1].endswith(" key: Error at offset 0, skipping. The record has no key.")


def test_a_value_that_is_wrong_does_not_end_the_dump() -> None:
    _, segment = build_pairs([(bytes.fromhex("0002000167"), bytes.fromhex("0009"))], 1)

    lines = list(dump_segment(segment, KEYS))

    assert len(lines) == 2
    assert lines[1].endswith(
        " key: Error at offset 0, skipping. GroupMetadataValue has version 9; 0 to 4 are known"
    )


def test_a_wrong_checksum_is_shown() -> None:
    segment = bytearray(build_pairs([(bytes.fromhex("0002000167"), None)], 1)[1])
    segment[17] ^= 1

    assert next(dump_segment(segment, KEYS)).endswith("isvalid: false")


def test_control_records_of_other_kinds_are_named() -> None:
    segment = build_batch([Record(0, 1, bytes.fromhex("00000063"), b"")], control=True)

    assert list(dump_segment(segment, KEYS))[1].endswith(" controlType: UNKNOWN(99)")


def test_group_metadata_that_is_not_a_subscription_stays_bytes() -> None:
    member = MemberMetadata("m", subscription=b"other", assignment=b"")
    group = GroupMetadataValue("consumer", members=(member,))
    _, segment = build_pairs([write(GroupMetadataKey("g"), group)], 1)

    line = list(dump_segment(segment, KEYS))[1]

    assert '"subscription":"b3RoZXI=","assignment":""' in line


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_java")
@pytest.mark.parametrize(
    ("topic", "keys", "decoder"),
    [
        ("__consumer_offsets", KEYS, "--offsets-decoder"),
        ("__transaction_state", transaction_log.KEYS, "--transaction-log-decoder"),
    ],
)
def test_kafkas_own_tool_prints_the_same(
    tmp_path: Path, topic: str, keys: KeyClasses, decoder: str
) -> None:
    path = tmp_path / f"{topic}-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(typical_segment(keys))
    jars = fetch(
        [f"org.apache.kafka:kafka_2.13:{RELEASE}", f"org.apache.kafka:kafka-tools:{RELEASE}"]
    )

    done = subprocess.run(
        [
            *(str(find_java().java), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"),
            *("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8"),
            *("-cp", ":".join(map(str, jars)), "org.apache.kafka.tools.DumpLogSegments"),
            *(decoder, "--files", str(path)),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    ours = [f"Dumping {path}", "Log starting offset: 0", *dump_segment(path.read_bytes(), keys)]
    assert "\n".join(ours) in done.stdout
