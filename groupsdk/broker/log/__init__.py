"""A partition on disk in Kafka's layout: segments, indexes, recovery, compaction, producer state.

Every call that uses the disk raises StorageError if the disk fails or is full; what the call was to change is then as
before, unless it says otherwise. Every call that reads batches raises CorruptLogError at a corrupt one.
"""
