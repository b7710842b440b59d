"""Put the tables of a run in the place of those that are there, all together and only when all are made."""

from collections.abc import Iterable
from typing import Final

from groupsdk.history.sources.filesystems import StorageDirectory


STAGING: Final = "_run"
"""The directory of a run that goes on; what a run that failed has left there is of no use."""
FOLLOWED: Final = "_followed"
"""The directory of `following.ledger`, whose tables a run replaces."""
_COMPLETE: Final = f"{STAGING}/_COMPLETE"
_OLD: Final = f"{STAGING}/_old"


def begin(store: StorageDirectory, names: Iterable[str]) -> None:
    """Make room for a run: finish one that was ended while it put its tables in their places, and drop others."""
    finish(store, names)
    store.delete(STAGING)


def publish(store: StorageDirectory, names: Iterable[str]) -> None:
    """Put the tables of a complete run in their places."""
    store.write(_COMPLETE, b"")
    finish(store, names)


def finish(store: StorageDirectory, names: Iterable[str]) -> None:
    """Go on with what `publish` began, wherever it was ended; does nothing where it ended well, or never began."""
    if not store.exists(_COMPLETE):
        return
    # its files are about to go
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
