"""Read how much a task weighs, beside others: the key `task.weight` of tasks and of connectors."""

from collections.abc import Mapping
from typing import Final

from groupsdk.connect.errors import ConnectorConfigError


WEIGHT_KEY: Final = "task.weight"
"""In a task's configuration its weight; in a connector's, that of its tasks which have none of their own."""
ONE: Final = 1_000
"""A weight of 1 as it is counted: in thousandths, so that sums are exact."""
LEAST: Final = 0.001
GREATEST: Final = 1_000_000


def weight_of(config: Mapping[str, str]) -> int | None:
    """Return the weight that a configuration names, in thousandths; None where it names none.

    Raises:
        ConnectorConfigError: it is no weight.
    """
    text = config.get(WEIGHT_KEY)
    return None if text is None else counted(text)


def counted(weight: object) -> int:
    """Return a weight in thousandths.

    Raises:
        ConnectorConfigError: it is no number of 0.001 to 1,000,000.
    """
    try:
        number = float(weight) if isinstance(weight, str | int | float) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or isinstance(weight, bool) or not LEAST <= number <= GREATEST:
        raise ConnectorConfigError(
            WEIGHT_KEY, f"must be a number of {LEAST} to {GREATEST:,}, not {weight!r}"
        )
    return round(number * ONE)
