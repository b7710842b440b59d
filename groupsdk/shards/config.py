"""Hold a shard worker's settings."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Unpack

from groupsdk.errors import ConfigError
from groupsdk.settings.config import (
    MEMBER_SETTINGS,
    MemberConfig,
    by_name,
    check_integer,
    unknown_key,
)
from groupsdk.shards.types import ShardError, check_name
from groupsdk.wire.shards.protocol import GREATEST_WEIGHT


if TYPE_CHECKING:
    from groupsdk.shards.keywords import ShardSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardConfig:
    """The settings of one shard worker.

    Build it with `of`, which takes dotted keys as well as keywords. Times are milliseconds. What a leader decides by
    (`standbys`, `load.*`, `shards.refresh.ms`, `epoch.topic`, `group.record.max.bytes`) should be the same on all workers,
    since any of them may become the leader.

    Raises:
        ConfigError: a value is of the wrong type or out of bounds.
    """

    member: MemberConfig
    """The settings of its group membership."""
    endpoint: str = ""
    """Where the worker's shards are served, for those who look up their owner; "": nowhere."""
    zone: str | None = None
    """Where the worker runs: its shards' standbys are elsewhere, and shards with this zone are here."""
    capabilities: Iterable[str] = ()
    """What the worker has, such as "gpu", for shards that need it."""
    capacity: float = 1.0
    """How much the worker can bear, relative to the others."""
    max_shards: int | None = None
    """The most shards that the worker may own; None: no limit."""
    standbys: int = 0
    """How many workers stand by for each shard."""
    release_timeout_ms: int = 30_000
    """How long `on_shards_released` may take, all attempts together; later the worker loses all its shards."""
    shards_refresh_ms: int = 30_000
    """How often the leader asks `shards()`, within poll, whether the list has changed."""
    epoch_topic: str | None = "groupsdk-shard-epochs"
    """The topic in which the leader records when epochs begin anew, created if missing; None: by its clock alone."""
    load_interval_ms: int = 300_000
    """How often reported loads may make shards move."""
    load_threshold: float = 1.25
    """Loads make shards move if the greatest one is more than so many times the mean."""
    load_move_budget: float = 0.1
    """At most this part of all shards moves at a time because of loads."""
    group_record_max_bytes: int = 1_000_000
    """How large the group's record may be: the brokers' message.max.bytes."""

    def __post_init__(self) -> None:
        for name in ("release_timeout_ms", "shards_refresh_ms", "load_interval_ms"):
            check_integer(name, getattr(self, name), 1)
        check_integer("standbys", self.standbys, 0)
        check_integer("group_record_max_bytes", self.group_record_max_bytes, 1_000)
        if self.max_shards is not None:
            check_integer("max_shards", self.max_shards, 0)
        _check_number("capacity", self.capacity, 0, GREATEST_WEIGHT, above=True)
        _check_number("load_threshold", self.load_threshold, 1, GREATEST_WEIGHT)
        _check_number("load_move_budget", self.load_move_budget, 0, 1)
        self._check_names()

    def _check_names(self) -> None:
        endpoint: object = self.endpoint
        if not isinstance(endpoint, str):
            raise ConfigError(f"endpoint must be a string, not {endpoint!r}")
        given: object = self.capabilities
        if isinstance(given, str):
            given = [each.strip() for each in given.split(",") if each.strip()]
        if not isinstance(given, Iterable):
            raise ConfigError(f"capabilities must be names such as {{'gpu'}}, not {given!r}")
        object.__setattr__(self, "capabilities", frozenset(given))
        try:
            for each in self.capabilities:
                check_name(each, "one of the capabilities")
            if self.zone is not None:
                check_name(self.zone, "zone")
            if self.epoch_topic is not None:
                check_name(self.epoch_topic, "epoch.topic")
        except ShardError as error:
            raise ConfigError(str(error)) from None

    @classmethod
    def of(
        cls, settings: Mapping[str, Any] | None = None, /, **keywords: "Unpack[ShardSettings]"
    ) -> "ShardConfig":
        """Build a configuration from dotted keys, keywords, or both.

        Args:
            settings: ``{"group.id": "crawl", "release.timeout.ms": 10000}``; underscores do as well.
            keywords: ``group_id="crawl"``; wins over `settings`.

        Raises:
            ConfigError: a key is unknown or given twice, or a value is wrong.
        """
        member, own = _split({} if settings is None else settings)
        member_keywords, own_keywords = _split(keywords)
        return cls(member=MemberConfig.of(member, **member_keywords), **{**own, **own_keywords})

    @classmethod
    def given(
        cls,
        settings: "Mapping[str, Any] | ShardConfig | MemberConfig | None",
        keywords: Mapping[str, Any],
    ) -> "ShardConfig":
        """Return `settings` if it is a configuration already, otherwise the result of `of`.

        Args:
            settings: a configuration, of the member alone or of the worker; or settings by dotted keys.
            keywords: settings by keyword; with a `MemberConfig` only the worker's own, with a `ShardConfig` none.

        Raises:
            ConfigError: see `of`; also for keywords that a configuration has already.
        """
        if isinstance(settings, ShardConfig | MemberConfig):
            known = _OWN if isinstance(settings, MemberConfig) else frozenset[str]()
            refused = sorted(keywords.keys() - known)
            if refused:
                raise ConfigError(
                    f"{', '.join(refused)}: give a {type(settings).__name__} or keywords, not both"
                )
            return settings if isinstance(settings, cls) else cls(member=settings, **keywords)  # type: ignore[arg-type]
        return cls.of(settings, **keywords)


_OWN: Final = frozenset(each.name for each in fields(ShardConfig)) - {"member"}
_TEXTS: Final = ("endpoint", "zone", "capabilities", "epoch_topic")


def _split(settings: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the member, by the keys given, and the worker's own ones by their names."""
    member: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, (key, value) in by_name(settings).items():
        if name in _OWN:
            own[name] = value if name in _TEXTS else _number(key, value)
        elif name in MEMBER_SETTINGS:
            member[key] = value  # what is wrong with it, the member's configuration says
        else:
            raise ConfigError(unknown_key(key, _OWN | MEMBER_SETTINGS))
    return member, own


def _number(key: str, value: Any) -> Any:
    """Convert a string from a file or the environment."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value)
    raise ConfigError(f"{key} must be a number, not {value!r}")


def _check_number(
    name: str, value: object, least: float, most: float, *, above: bool = False
) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{_dotted(name)} must be a number, not {value!r}")
    # not so for what is no number, as well
    if not least <= value <= most or (above and value == least):
        raise ConfigError(
            f"{_dotted(name)} must be {'over' if above else 'from'} {least:g} and at most {most:g}, not {value!r}"
        )


def _dotted(name: str) -> str:
    return name.replace("_", ".")
