"""The settings of clients: their names, checks and defaults, security, and librdkafka's forms."""
