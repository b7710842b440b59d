"""Write the markers that end a transaction to all its partitions, and report the results to its coordinator."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.runtime.contract import MarkerPartitions, ProducerStamp
from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.coordinator.transactions.shard import TransactionCoordinatorShard
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster


logger = logging.getLogger(__name__)
_IN_A_STEP: Final = 8
"""How many markers are written in a step: some of the logs, and their files, may have to be opened for that."""


class MarkerWriter:
    """Writes markers by local calls, after the response to the producer was sent."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    def write(self, markers: MarkerPartitions) -> None:
        """Schedule writing the markers in the next iteration of the loop; the results go to the coordinator."""
        # the coordinator that requests them: if it moves before that, the new one writes them
        runtime = self._coordinator_of(markers)
        if runtime is not None:
            self._cluster.defer(lambda: self._go_on(markers, runtime, iter(markers.partitions), {}))

    def _coordinator_of(self, markers: MarkerPartitions) -> CoordinatorRuntime | None:
        coordinators = self._cluster.transactions
        return coordinators.find(coordinators.partition_for(markers.transactional_id))

    def _go_on(
        self,
        markers: MarkerPartitions,
        runtime: CoordinatorRuntime,
        waiting: Iterator[tuple[str, int]],
        outcomes: dict[tuple[str, int], ErrorCode],
    ) -> None:
        """Write some of the markers; after the last ones, report to the coordinator that requested them."""
        cluster = self._cluster
        if self._coordinator_of(markers) is not runtime:
            return  # the partition moved: its new coordinator writes the markers again
        for place in islice(waiting, _IN_A_STEP):
            outcomes[place] = self.mark(markers, *place)
        if len(outcomes) < len(markers.partitions):
            cluster.in_steps(lambda: self._go_on(markers, runtime, waiting, outcomes))
            return
        shard = runtime.shard
        assert isinstance(shard, TransactionCoordinatorShard)
        runtime.apply(
            shard.markers_written(
                markers.transactional_id,
                markers.producer_id,
                markers.producer_epoch,
                outcomes,
                cluster.now_ms(),
            )
        )

    def mark(self, markers: MarkerPartitions, topic: str, partition: int) -> ErrorCode:
        """Write the marker of one partition, and apply it to the group coordinator of an offsets partition.

        Args:
            markers: the producer and the outcome; its partitions are ignored.

        Returns:
            NONE, or the error: LEADER_NOT_AVAILABLE for a deleted partition, NETWORK_EXCEPTION if its node is stopped.
        """
        cluster = self._cluster
        leader = cluster.leader(topic, partition)
        if leader is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        node = cluster.nodes.get(leader)
        if node is None or not node.running:
            return ErrorCode.NETWORK_EXCEPTION
        runtime = None
        if topic == OFFSETS_TOPIC:
            found = cluster.groups.runtime_at(leader, partition)
            if not isinstance(found, CoordinatorRuntime):
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            runtime = found
        try:
            cluster.log(topic, partition).append_marker(
                markers.producer_id,
                markers.producer_epoch,
                committed=markers.committed,
                coordinator_epoch=markers.coordinator_epoch,
                now_ms=cluster.now_ms(),
                leader_epoch=cluster.leader_epoch(topic, partition),
            )
        except GroupSdkError as error:
            logger.warning("%s-%d: writing the marker failed: %s", topic, partition, error)
            code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
            return ErrorCode.of(code)
        if runtime is not None:
            stamp = ProducerStamp(markers.producer_id, markers.producer_epoch)
            runtime.marked(stamp, committed=markers.committed)
        cluster.appended((topic, partition))
        return ErrorCode.NONE
