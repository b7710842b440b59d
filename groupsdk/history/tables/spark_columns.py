"""Give a DataFrame the columns of a table, in their order and of their types."""

from collections.abc import Callable

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.tables.schemas import TABLES


Step = Callable[[DataFrame], DataFrame]
"""A step for `DataFrame.transform`."""


def as_declared(name: str) -> Step:
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
