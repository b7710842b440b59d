"""Speak Kafka's protocol: bytes in, messages out, and back; no socket, no thread, no clock."""
