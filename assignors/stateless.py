"""Hold what assignors without a memory have in common."""

from collections.abc import Collection
from typing import ClassVar

from groupsdk.assignment import Assignment, RebalanceProtocol


class StatelessAssignor:
    """Base of assignors that start from nothing at every rebalance: no user data, nothing to note.

    Subclasses set `name` and add `assign`; see `groupsdk.assignment.PartitionAssignor`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 0
    supported_protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset(
        {RebalanceProtocol.EAGER}
    )

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return None: the leader needs to know nothing but the topics."""
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Do nothing: the next assignment does not depend on this one."""
