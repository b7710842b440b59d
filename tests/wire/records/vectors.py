"""Record batches as Kafka 4.1.0 writes them."""

from groupsdk.wire.records.batch import CRC_START
from groupsdk.wire.records.checksum import crc32c


TOMBSTONE = bytes.fromhex(
    "000000000000000000000044ffffffff02a8295b1b00000000000000000000000003e800000000000003e8"
    "ffffffffffffffffffffffffffff0000000124000000180001000167000174000000020100"
)
TRANSACTIONAL = bytes.fromhex(
    "000000000000000a000000430000000302f472980f00100000000100000000000003e800000000000003e9"
    "00000000000000050001000000000000000210000000026b02760010000202046b320000"
)
COMMIT = bytes.fromhex(
    "0000000000000000000000420000000002dd13157400300000000000000000000003e800000000000003e8"
    "00000000000000050001ffffffff000000012000000008000000010c00000000000400"
)
OFFSET_KEY = bytes.fromhex("000100016700017400000002")


def resealed(batch: bytes | bytearray) -> bytes:
    """Gives a batch that was changed the checksum of what it is now."""
    covered = bytes(batch[CRC_START:])
    return bytes(batch[: CRC_START - 4]) + crc32c(covered).to_bytes(4) + covered
