"""An embedded Kafka: a group and transaction coordinator, the log that they keep, and enough of a broker."""
