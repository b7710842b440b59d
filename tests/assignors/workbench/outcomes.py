"""Make outcomes to write and draw."""

from typing import Any

from assignors.quality import Quality
from assignors.workbench.simulation import Outcome


def outcome(
    assignor: str, event: str, *, moves: int = 0, cpu_ms: float = 1.0, **changes: Any
) -> Outcome:
    """Make the outcome of an event for a group of two with loads 2 and 3; `changes` go to the quality."""
    quality: dict[str, Any] = {
        "problems": (),
        "partitions": 5,
        "withheld": 0,
        "loads": {"a": 2, "b": 3},
        "most": 3,
        "least_most": 3,
        "fewest": 2,
        "is_fairest": True,
        "moves": moves,
        "least_moves": 0,
        "spread": 1.0,
        "off_rack": 0,
        "least_off_rack": 0,
        "with_racks": 0,
    }
    return Outcome(assignor, event, 2, Quality(**quality | changes), 1, cpu_ms)
