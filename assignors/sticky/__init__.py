"""Kafka's sticky assignor, made exact."""
