"""Read the records of `__consumer_offsets` from files and brokers into Spark."""
