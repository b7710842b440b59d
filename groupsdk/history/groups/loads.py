"""Measure how evenly partitions are shared out."""

from collections.abc import Sequence
from math import sqrt


def deviation(loads: Sequence[int]) -> float:
    """Return the standard deviation of the members' loads; 0 where there are no members.

    `statistics.pstdev` comes to the same by way of fractions, which takes longer than to assign.
    """
    count = len(loads)
    if not count:
        return 0.0
    total = sum(loads)
    # exact in integers, so that equal loads give 0 and nothing near it
    return sqrt(count * sum([load * load for load in loads]) - total * total) / count
