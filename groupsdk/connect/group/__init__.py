"""A worker's part in its group: membership, states, the leader's work, Connect's assignors."""
