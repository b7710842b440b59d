"""A partition on disk in Kafka's layout: segments, indexes, recovery, compaction, producer state."""
