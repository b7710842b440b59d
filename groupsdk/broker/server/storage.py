"""Open the storage of a broker: the data directory, and the catalogue in it."""

import logging
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from groupsdk.broker.catalogue import INTERNAL_TOPICS, Catalogue, new_cluster_id
from groupsdk.broker.log.checkpoints import read_properties
from groupsdk.broker.log.directory import META_PROPERTIES, LogDirectory
from groupsdk.broker.log.files import Files
from groupsdk.broker.store import FILE_NAME, SqliteStore, Store
from groupsdk.clock import WallClock


logger = logging.getLogger(__name__)
_MEMORY_PATH: Final = "data"
_FIRST_NODE: Final = 1
_IDS_PER_MS_BITS: Final = 20  # int64 ids suffice beyond the year 2200


class Storage(NamedTuple):
    """The open storage of a broker."""

    directory: LogDirectory
    """The locked data directory with the logs."""
    catalogue: Catalogue
    """The topics and configurations."""


def open_storage(files: Files, path: Path | None, store: Store | None) -> Storage:
    """Open and lock a data directory, and open its catalogue.

    Topics in the directory that are not in the catalogue, as in a directory written by Kafka, are added to it.
    """
    root = _MEMORY_PATH if path is None else str(path)
    known = read_properties(files, f"{root}/{META_PROPERTIES}") or {}
    cluster_id = known.get("cluster.id")
    node_id = known.get("node.id", known.get("broker.id", str(_FIRST_NODE)))
    if store is None:
        cluster_id = cluster_id or new_cluster_id()
        directory = LogDirectory.open(files, root, cluster_id=cluster_id, node_id=_number(node_id))
        try:
            # only now that the directory is locked
            catalogue = Catalogue(SqliteStore(Path(root) / FILE_NAME), cluster_id)
        except BaseException:
            directory.close()
            raise
    else:
        catalogue = Catalogue(store, cluster_id)
        directory = LogDirectory.open(
            files, root, cluster_id=catalogue.cluster_id, node_id=_number(node_id)
        )
    _adopt(directory, catalogue)
    return Storage(directory, catalogue)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else _FIRST_NODE


def _adopt(directory: LogDirectory, catalogue: Catalogue) -> None:
    for name in catalogue.deleted:
        # a crash came before its records were deleted
        directory.delete((name,))
    counts: dict[str, int] = {}
    ids: dict[str, UUID] = {}
    for (name, partition), topic_id in directory.found.items():
        if name in catalogue.topics or name == "__cluster_metadata":
            continue
        counts[name] = max(counts.get(name, 0), partition + 1)
        if topic_id is not None:
            ids[name] = topic_id
    if counts:
        configs = {name: {"cleanup.policy": "compact"} for name in INTERNAL_TOPICS & counts.keys()}
        leaders = {name: [_FIRST_NODE] * count for name, count in counts.items()}
        _skip_producer_ids(catalogue)
        catalogue.create_topics(leaders, configs, ids)
        logger.info("adopted topics found in the data directory: %s", ", ".join(sorted(counts)))


def _skip_producer_ids(catalogue: Catalogue) -> None:
    """Skip producer ids that adopted logs contain, or that their former broker may still allocate.

    Kafka stores its next block in its controllers' log, which is not read. Ids derived from the date are above all ids
    that any broker has reached by counting from 0, and above those of earlier adoptions.
    """
    from groupsdk.broker.coordinators import (
        CatalogueBlockStore,
    )  # imported here, as nothing else needs it this early

    blocks = CatalogueBlockStore(catalogue.store)
    start = blocks.next_start()
    blocks.claim(start, max(start, WallClock().now_ms() << _IDS_PER_MS_BITS))
