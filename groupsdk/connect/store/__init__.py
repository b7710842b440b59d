"""What the workers of a group store: configurations, offsets and states, in Kafka or in files."""
