"""The group coordinator: requests and state shared by classic and consumer groups (Kafka: GroupCoordinatorShard)."""
