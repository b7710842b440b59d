"""Compares whole batches with Kafka's classes: what it wrote once, and live where a JDK is."""

import json
from functools import cache

import pytest

from groupsdk.wire.records.batch import read_header, verify
from groupsdk.wire.records.compression import Compression
from groupsdk.wire.records.record import read_records
from tests.support.cases import each_case
from tests.wire.records.batch_cases import CASES, ask, program, read_golden, rows


@cache
def golden() -> dict[str, str]:
    return read_golden()


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_written_as_kafka_writes_it(name: str) -> None:
    assert CASES[name].build().hex() == golden()[f"NONE {name}"]


@pytest.mark.parametrize("codec", Compression)
@each_case("name", CASES)
def test_batch_compressed_by_kafka_is_read(name: str, codec: Compression) -> None:
    batch = bytes.fromhex(golden()[f"{codec.name} {name}"])

    header = read_header(batch)
    verify(batch, header)
    assert header.compression == codec
    assert list(read_records(batch)) == CASES[name].as_read()


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_java")
def test_kafka_reads_what_we_compress_and_writes_what_it_wrote() -> None:
    with program() as java:
        answers = ask(java)
        read = {
            f"{codec.name} {name}": json.loads(
                java.ask(json.dumps({"read": case.build(codec).hex()}))
            )
            for name, case in CASES.items()
            for codec in Compression
        }

    assert read == {
        f"{codec.name} {name}": rows(case.as_read())
        for name, case in CASES.items()
        for codec in Compression
    }
    # other codecs may come out otherwise in another build of the libraries, and mean the same
    assert {name: data for name, data in answers.items() if name.startswith("NONE")} == {
        name: data for name, data in golden().items() if name.startswith("NONE")
    }
