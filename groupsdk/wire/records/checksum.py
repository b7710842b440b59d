"""Compute CRC-32C, the checksum of record batches."""

import google_crc32c


Buffer = bytes | bytearray | memoryview
"""What record batches are read from; a view has to be of single bytes."""


def crc32c(data: Buffer) -> int:
    """Compute the CRC-32C (Castagnoli) of bytes, as java.util.zip.CRC32C does."""
    # the library takes nothing that could change under it
    checksum: int = google_crc32c.value(data if isinstance(data, bytes) else bytes(data))
    return checksum
