"""Record in a Delta table how far each cluster is followed: an update counts with one transaction of it, together with its position in the log."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from groupsdk.clock import WallClock
from groupsdk.history.tables.delta_tables import FOLLOWED_TABLE, create, opened, version_of
from groupsdk.history.tables.lake_changes import ClusterRows, another_process, app_id
from groupsdk.history.tables.ledger import (
    ATTEMPT,
    CHECKPOINT,
    Change,
    Ledger,
    State,
    state_of_json,
    state_to_json,
)
from groupsdk.history.tables.publishing import FOLLOWED
from groupsdk.history.tables.schemas import CLUSTER
from groupsdk.lazy_imports import override


logger = logging.getLogger(__name__)

SCHEMA: Final = pa.schema(
    [
        (CLUSTER, pa.string()),
        ("source", pa.string()),
        ("update", pa.int64()),
        ("batch", pa.int64()),
        ("positions", pa.map_(pa.string(), pa.int64())),
        ("state", pa.string()),
    ]
)
STRAY_MS: Final = 24 * 60 * 60 * 1000
"""Files that count for no update are deleted when they are so old: younger ones may be of an update in progress."""


class DeltaLedger(Ledger):
    """The state of one cluster, and the files that belong to it, below `root` on a pyarrow file system.

    There is no lock: the version of the transaction is that of the update, so that of two processes that follow one cluster Delta
    refuses the later commit. It is also the `lease.Lease` of the directory. Files stay where the update has written them.
    """

    def __init__(self, system: Any, root: str, lake: str, cluster_id: str) -> None:
        super().__init__(system, root)
        self._lake = lake
        self._cluster_id = cluster_id
        self._app = f"{app_id(cluster_id)}/{FOLLOWED_TABLE}"
        self._version = -1

    @override
    def open(self) -> State | None:
        table = opened(self._lake, FOLLOWED_TABLE)
        self._version = version_of(table, self._app)
        if table is None:
            return None
        mine = pc.field(CLUSTER) == self._cluster_id
        found = table.to_pyarrow_dataset().to_table(columns=["state"], filter=mine).to_pylist()
        state = (
            state_of_json(found[0]["state"], f"{self._lake}/{FOLLOWED_TABLE}") if found else None
        )
        self._delete_strays(state)
        return state

    @override
    def create(self, state: State) -> State:
        created = replace(state, update=0, batch=-1, checkpoint=f"{CHECKPOINT}{uuid4().hex[:12]}")
        self._write_row(created)
        return created

    @override
    def commit(self, state: State, change: Change) -> State:
        added = [replace(file, path=f"{change.folder}/{source}") for source, file in change.added]
        files = [each for each in state.files if each.path not in change.removed]
        after = replace(state, files=tuple(sorted([*files, *added])))
        self._write_row(after)
        kept = {each.path for each in after.files}
        self._delete([*change.removed, *(self._below(change.folder) - kept)])
        return after

    def check(self) -> None:
        """Raise ConfigError if another process has committed an update since."""
        if version_of(opened(self._lake, FOLLOWED_TABLE), self._app) != self._version:
            raise another_process(self._cluster_id, self._lake)

    def release(self) -> None: ...

    def _write_row(self, state: State) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError

        columns = {
            CLUSTER: self._cluster_id,
            "source": state.source,
            "update": state.update,
            "batch": state.batch,
            "positions": list(state.positions.items()),
            "state": state_to_json(state),
        }
        row = pa.Table.from_pylist([columns], schema=SCHEMA)
        table = create(self._lake, FOLLOWED_TABLE, SCHEMA, [CLUSTER])
        if version_of(table, self._app) != self._version:
            raise another_process(self._cluster_id, self._lake)
        once = CommitProperties(app_transactions=[Transaction(self._app, self._version + 1)])
        try:
            write_deltalake(
                table,
                row,
                mode="overwrite",
                predicate=ClusterRows(FOLLOWED_TABLE, self._cluster_id).are_mine,
                commit_properties=once,
            )
        except CommitFailedError as error:
            raise another_process(self._cluster_id, self._lake) from error
        self._version += 1

    def _below(self, folder: str) -> set[str]:
        found = self._list(folder, recursive=True)
        return {
            each.path.removeprefix(f"{self.root}/")
            for each in found
            if each.type == fs.FileType.File
        }

    def _delete_strays(self, state: State | None) -> None:
        """Delete what killed updates and former followers have left."""
        known = set() if state is None else {each.path for each in state.files}
        checkpoint = None if state is None else f"{FOLLOWED}/{state.checkpoint}/"
        before_s = (WallClock().now_ms() - STRAY_MS) / 1000
        ours = f"{FOLLOWED}/{ATTEMPT}", f"{FOLLOWED}/{CHECKPOINT}"
        strays = []
        for each in self._list(FOLLOWED, recursive=True):
            path = each.path.removeprefix(f"{self.root}/")
            is_stray = path.startswith(ours) and path not in known
            if checkpoint is not None and path.startswith(checkpoint):
                is_stray = False
            if each.type == fs.FileType.File and is_stray and each.mtime.timestamp() < before_s:
                strays.append(path)
        self._delete(strays)

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                self._delete_file(path)
            except OSError as error:
                # it counts for nothing, and is stray from now on
                logger.info("history: %s was not deleted: %s", path, error)
