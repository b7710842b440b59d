"""Choose the partition of an internal topic that a group or a transactional id belongs to."""

from typing import Final


DEFAULT_PARTITIONS: Final = 50
"""The partitions of `__consumer_offsets` and of `__transaction_state`, unless the broker says otherwise."""


def java_hash(text: str) -> int:
    """Compute Java's `String.hashCode`: over UTF-16 code units, in signed 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = 31 * value + (units[at] << 8 | units[at + 1]) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(coordinator_id: str, partition_count: int) -> int:
    """Choose the partition for a group id or a transactional id, as every broker does.

    The count must never change while there are records: they would not be found again. (Kafka:
    Utils.abs, which makes 0 of the one number that has no positive counterpart.)

    Raises:
        ValueError: there is no partition to choose.
    """
    if partition_count < 1:
        raise ValueError(f"{partition_count} partitions to choose from; at least one is needed")
    value = java_hash(coordinator_id)
    return 0 if value == -(2**31) else abs(value) % partition_count
