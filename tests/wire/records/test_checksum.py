"""Tests the checksum of record batches against the vectors of RFC 3720."""

import pytest

from groupsdk.wire.records.batch import crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_checksum_is_that_of_castagnoli(
    data: bytes, expected: int, kind: type[bytes | bytearray | memoryview]
) -> None:
    assert crc32c(kind(data)) == expected
