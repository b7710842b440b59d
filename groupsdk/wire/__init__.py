"""Encode and decode Kafka's protocol; no sockets, no threads, no clock."""
