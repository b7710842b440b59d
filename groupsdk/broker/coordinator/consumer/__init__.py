"""Consumer groups of KIP-848: the coordinator computes the assignment, members send heartbeats."""
