"""Choose the partition of an internal topic that a group or a transactional id belongs to."""


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of `text`: over its UTF-16 code units, as a signed 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = 31 * value + (units[at] << 8 | units[at + 1]) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(coordinator_id: str, partition_count: int) -> int:
    """Return the partition of a coordinator's topic that holds a group or transactional id.

    As Kafka's `GroupMetadataManager.partitionFor`: `Utils.abs` turns the lowest integer into 0.

    Args:
        partition_count: the partitions of the topic. It must not change while the topic has records: they would not be
            found again.

    Raises:
        ValueError: `partition_count` is below 1.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count must be at least 1, not {partition_count}")
    value = java_hash(coordinator_id)
    return 0 if value == -(2**31) else abs(value) % partition_count
