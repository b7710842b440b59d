"""Bring a DataFrame into the declared shape of its table: the columns, in their order and of their types."""

from collections.abc import Callable

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.schemas import TABLES


Step = Callable[[DataFrame], DataFrame]
"""What `DataFrame.transform` takes."""


def shaped(name: str) -> Step:
    """Return the step that selects and casts the columns of a table; for `DataFrame.transform`.

    Raises:
        KeyError: there is no such table.
    """
    table = TABLES[name]

    def step(frame: DataFrame) -> DataFrame:
        return frame.select(
            *(f.col(column).cast(kind).alias(column) for column, kind in table.columns.items())
        )

    return step
