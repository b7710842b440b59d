"""Read and write the records of the coordinators' logs, `__consumer_offsets` and `__transaction_state`."""
