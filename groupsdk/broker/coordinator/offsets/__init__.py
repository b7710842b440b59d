"""Committed offsets of groups: checked, stored, read, expired (Kafka: OffsetMetadataManager)."""
