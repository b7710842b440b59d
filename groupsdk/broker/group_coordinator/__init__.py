"""The coordinator of groups: what classic and consumer groups share (Kafka: GroupCoordinatorShard)."""
