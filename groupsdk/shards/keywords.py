"""Name the settings of a shard worker, so that editors complete them and type checkers know them.

Made from the code by `python -m docs.list_settings`, like the tables in docs/configuration.md. Only type
checkers import it.
"""

from collections.abc import Iterable

from groupsdk.settings.keywords import MemberSettings


class ShardSettings(MemberSettings, total=False):
    """A shard worker's settings as keywords: what `ShardConfig.of` takes."""

    endpoint: str
    """Where the worker's shards are served, for those who look up their owner; "": nowhere."""
    zone: str | None
    """Where the worker runs: its shards' standbys are elsewhere, and shards with this zone are
    here."""
    capabilities: Iterable[str]
    """What the worker has, such as "gpu", for shards that need it."""
    capacity: float
    """How much the worker can bear, relative to the others."""
    max_shards: int | None
    """The most shards that the worker may own; None: no limit."""
    standbys: int
    """How many workers stand by for each shard."""
    release_timeout_ms: int
    """How long `on_shards_released` may take, all attempts together; later the worker loses all
    its shards."""
    shards_refresh_ms: int
    """How often the leader asks `shards()`, within poll, whether the list has changed."""
    epoch_topic: str | None
    """The topic in which the leader records when epochs begin anew, created if missing; None: by
    its clock alone."""
    load_interval_ms: int
    """How often reported loads may make shards move."""
    load_threshold: float
    """Loads make shards move if the greatest one is more than so many times the mean."""
    load_move_budget: float
    """At most this part of all shards moves at a time because of loads."""
    group_record_max_bytes: int
    """How large the group's record may be: the brokers' message.max.bytes."""
