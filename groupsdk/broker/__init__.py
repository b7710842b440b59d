"""An embedded Kafka broker: group and transaction coordinators, their logs, and topics for any Kafka client."""
