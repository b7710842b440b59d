"""Read and write record batches, the unit of Kafka's log and of Produce and Fetch."""
