"""A group member of the consumer protocol (KIP-848), without I/O: the broker assigns, heartbeats carry everything else."""
