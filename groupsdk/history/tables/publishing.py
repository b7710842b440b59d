"""Replace tables by those of a run, all together and only when the run is complete."""

from collections.abc import Iterable
from typing import Final

from groupsdk.history.sources.filesystems import StorageDirectory


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
