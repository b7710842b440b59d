"""Share everything out anew in each round, as Connect did before KIP-415 (`EagerAssignor`)."""

from collections.abc import Iterable, Mapping
from heapq import heapreplace
from itertools import cycle

from groupsdk.connect.work import ClusterAssignment, Work
from groupsdk.utf16 import utf16_sorted
from groupsdk.wire.connect_protocol import ConnectorTaskId


class EagerAssignor:
    """Deal connectors, then tasks, to the members in turn; keeps nothing between rounds."""

    def assign(
        self,
        configured: Work,
        member_ids: Iterable[str],
        weights: Mapping[ConnectorTaskId, int] | None = None,
    ) -> ClusterAssignment:
        """Share out.

        Args:
            configured: all there is to do, connectors and tasks in their order.
            member_ids: among whom, at least one.
            weights: of all tasks, where they differ: then each goes to who has the least, the heaviest first.
        """
        members = utf16_sorted(member_ids)
        connectors: dict[str, list[str]] = {each: [] for each in members}
        tasks: dict[str, list[ConnectorTaskId]] = {each: [] for each in members}
        # one turn for both: the tasks go on where the connectors ended
        turn = cycle(members)
        for connector in configured.connectors:
            connectors[next(turn)].append(connector)
        if weights:
            lightest = [(0, place, member) for place, member in enumerate(members)]
            for task in sorted(configured.tasks, key=lambda each: -weights[each]):
                load, place, member = lightest[0]
                tasks[member].append(task)
                heapreplace(lightest, (load + weights[task], place, member))
        else:
            for task in configured.tasks:
                tasks[next(turn)].append(task)
        held = {each: Work(tuple(connectors[each]), tuple(tasks[each])) for each in members}
        return ClusterAssignment(assigned=held, revoked={}, held=held)
