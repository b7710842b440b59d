"""The member of a group of the consumer protocol (KIP-848), without I/O: the broker assigns, heartbeats do the rest."""
