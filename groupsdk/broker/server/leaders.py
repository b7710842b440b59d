"""Tell clients that came to the wrong node where the right one is (KIP-951)."""

from groupsdk.broker.catalogue import Topic
from groupsdk.broker.server.call import Call


class LeaderHints:
    """Collect the leaders that one answer names."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._named: set[int] = set()

    def leader(self, topic: Topic, partition: int) -> tuple[int, int]:
        """Return the leader of a partition and its epoch, and remember the leader."""
        state = topic.partitions[partition]
        self._named.add(state.leader)
        return state.leader, state.leader_epoch

    def endpoints(self) -> list[tuple[int, str, int, str | None]]:
        """Return (node id, host, port, rack) of the leaders that were named and run."""
        if not self._named:
            return []
        listener = self._call.connection.listener_name
        cluster = self._call.node.cluster
        rack = cluster.config.broker_rack or None
        return [
            (node.node_id, *node.endpoint(listener), rack)
            for node in cluster.running_nodes
            if node.node_id in self._named
        ]
