"""Answer to HTTP in the paths and shapes that users of Kafka Connect know."""
