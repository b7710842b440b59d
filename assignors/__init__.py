"""Share out items among the members of a group; Kafka's own assignors (range, sticky, ...) come later."""

from assignors.items import assign_range, assign_round_robin


__all__ = ["assign_range", "assign_round_robin"]
