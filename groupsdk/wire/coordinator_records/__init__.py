"""The records of `__consumer_offsets` and `__transaction_state`: keys, values, and how Kafka prints them."""
