"""A group member of the classic protocol: it joins, the leader assigns, heartbeats keep the session."""
