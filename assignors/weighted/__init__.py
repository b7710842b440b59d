"""Assign partitions by weight: lag or rate of partitions, capacity of members."""

from assignors.weighted.assignor import WeightedAssignor
from assignors.weighted.report import WeightReport


__all__ = ["WeightReport", "WeightedAssignor"]
