"""Count the events of a group coordinator, under the names of Kafka's GroupCoordinatorMetrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class CoordinatorCounters:
    """How often each event happened since the coordinator of one partition was made."""

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    classic_rebalances: int = 0
    """Generations of classic groups whose leader's assignment is in the log."""
    consumer_rebalances: int = 0
    """Epochs by which consumer groups (KIP-848) went on."""

    def by_name(self) -> dict[str, int]:
        """Return the counts by Kafka's names of the totals."""
        return {
            "offset-commit-count": self.offset_commits,
            "offset-expiration-count": self.offset_expirations,
            "offset-deletion-count": self.offset_deletions,
            "group-completed-rebalance-count": self.classic_rebalances,
            "consumer-group-rebalance-count": self.consumer_rebalances,
        }
