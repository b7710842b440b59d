"""Groups of the classic protocol: members, rebalances, and the requests of members (Kafka: ClassicGroup)."""
