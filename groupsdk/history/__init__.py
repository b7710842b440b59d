"""Explain the history of a cluster's groups from its log, `__consumer_offsets`.

`Options`, `TABLES`, `Table`, `segment_tasks` and `groupsdk.history.local` need the extra `history`; the other names run on PySpark and need the
extra `spark`.
"""

from typing import TYPE_CHECKING, Final

from groupsdk.lazy_imports import lazy_attributes


if TYPE_CHECKING:
    from groupsdk.history.job import Inputs, create_views, read_tables, run
    from groupsdk.history.pipeline import Options
    from groupsdk.history.session import build_session
    from groupsdk.history.sources.segment_files import segment_tasks
    from groupsdk.history.sources.spark_segments import read_segments
    from groupsdk.history.tables.schemas import TABLES, Table
    from groupsdk.history.tables.table_formats import format_settings

_HOMES: Final = {
    "Inputs": "groupsdk.history.job",
    "Options": "groupsdk.history.pipeline",
    "TABLES": "groupsdk.history.tables.schemas",
    "Table": "groupsdk.history.tables.schemas",
    "build_session": "groupsdk.history.session",
    "create_views": "groupsdk.history.job",
    "format_settings": "groupsdk.history.tables.table_formats",
    "read_segments": "groupsdk.history.sources.spark_segments",
    "read_tables": "groupsdk.history.job",
    "run": "groupsdk.history.job",
    "segment_tasks": "groupsdk.history.sources.segment_files",
}

__getattr__ = lazy_attributes(__name__, _HOMES)

__all__ = [
    "Inputs",
    "Options",
    "TABLES",
    "Table",
    "build_session",
    "create_views",
    "format_settings",
    "read_segments",
    "read_tables",
    "run",
    "segment_tasks",
]
