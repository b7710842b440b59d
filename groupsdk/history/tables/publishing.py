"""Which format the tables of a directory have; replace those of Parquet by a run's, all together and only when it is complete."""

from collections.abc import Iterable
from typing import Final

from groupsdk.errors import ConfigError
from groupsdk.history.sources.filesystems import StorageDirectory


PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)

_MARKS: Final = {DELTA: "_delta_log", ICEBERG: "metadata"}
"""The subdirectory that shows the format of a table."""

STAGING: Final = "_run"
"""The directory of a run in progress; the leftovers of a failed run are useless."""
FOLLOWED: Final = "_followed"
"""The directory of `tables.ledger`, whose tables a run replaces."""
_COMPLETE: Final = f"{STAGING}/_COMPLETE"
_OLD: Final = f"{STAGING}/_old"


def begin(store: StorageDirectory, names: Iterable[str]) -> None:
    """Prepare for a run that makes the tables `names`: finish an interrupted `publish`, and delete other leftovers."""
    finish(store, names)
    store.delete(STAGING)


def publish(store: StorageDirectory, names: Iterable[str]) -> None:
    """Replace the tables `names` in the directory `store` by those of the complete run."""
    store.write(_COMPLETE, b"")
    finish(store, names)


def finish(store: StorageDirectory, names: Iterable[str]) -> None:
    """Finish an interrupted `publish` of the tables `names`, wherever it stopped; does nothing if there is none."""
    if not store.exists(_COMPLETE):
        return
    # the ledger's files are about to be replaced
    store.delete(FOLLOWED)
    for name in names:
        made = f"{STAGING}/{name}"
        if not store.exists(made):
            continue
        if store.exists(name):
            store.delete(f"{_OLD}/{name}")
            store.move(name, f"{_OLD}/{name}")
        store.move(made, name)
    store.delete(STAGING)


def format_of(store: StorageDirectory, table: str = "generations") -> str:
    for table_format, mark in _MARKS.items():
        if store.exists(f"{table}/{mark}"):
            return table_format
    return PARQUET


def refuse_other(store: StorageDirectory, table_format: str) -> None:
    """Raise ConfigError if a directory has tables of another format: those of a lakehouse may be of many clusters."""
    found = format_of(store)
    if store.exists("generations") and found != table_format:
        raise ConfigError(
            f"{store.root} has tables of the format {found}: give --format {found}, or another directory for --out"
        )
