"""The settings of a worker, under Kafka Connect's names."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders
from groupsdk.connect.group.coordinator import MODES
from groupsdk.connect.java_settings import take_java
from groupsdk.connect.rest.session_key import SessionKeySettings
from groupsdk.connect.store.status_backing_store import TopicTracking
from groupsdk.connect.tasks.tolerance import RestartPolicy
from groupsdk.errors import ConfigError
from groupsdk.settings.config import (
    MEMBER_SETTINGS,
    MemberConfig,
    as_integer,
    by_name,
    check_integer,
    unknown_key,
)
from groupsdk.settings.librdkafka import client_settings


logger = logging.getLogger("groupsdk.connect.librdkafka")

_DEFAULTS: Final = {
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 3_000,
    "rebalance.timeout.ms": 60_000,
    "client.id": "groupsdk-connect",
}
"""Where Connect's defaults for its members are not those of consumers."""
_RESTART: Final = {
    "task_restart_max": "max_restarts",
    "task_restart_backoff_ms": "backoff_ms",
    "task_restart_backoff_max_ms": "backoff_max_ms",
    "task_restart_reset_ms": "reset_after_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectConfig:
    """The settings of one worker. Build it with `of`. Times are milliseconds."""

    member: MemberConfig
    """The settings of its group membership."""
    connect_protocol: str = "sessioned"
    """Which rebalance protocols it offers: "sessioned" and "compatible" move work by increments, "eager" stops
    everything in each rebalance."""
    scheduled_rebalance_max_delay_ms: int = 300_000
    """How long the work of a departed worker is held back for its return; 0: not at all."""
    worker_sync_timeout_ms: int = 3_000
    """How long to read the configurations to their end."""
    task_shutdown_graceful_timeout_ms: int = 5_000
    """How long a task may take to stop."""
    config_storage_topic: str = ""
    """Where configurations are kept; by default GROUP-connect-configs."""
    offset_storage_topic: str = ""
    """Where the states of tasks are kept; by default GROUP-connect-offsets."""
    status_storage_topic: str = ""
    """Where statuses are kept; by default GROUP-connect-status."""
    offset_storage_partitions: int = 25
    status_storage_partitions: int = 5
    """The numbers of partitions with which these topics are created."""
    storage_replication_factor: int = -1
    """The replication factor with which the topics are created; -1: the brokers' default."""
    config_storage_replication_factor: int | None = None
    offset_storage_replication_factor: int | None = None
    status_storage_replication_factor: int | None = None
    """None: `storage_replication_factor`."""
    topic_tracking_enable: bool = True
    """Whether to record the topics that tasks report to use (KIP-558)."""
    topic_tracking_allow_reset: bool = True
    """Whether these records may be reset on request."""
    plan_interval_ms: int = 0
    """How often the leader plans the tasks of all connectors, besides at each rebalance; 0: never."""
    worker_id: str = ""
    """The name of this worker in statuses; by default host:pid."""
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    """How failed tasks are restarted: task.restart.max, task.restart.backoff.ms, ..."""
    session_keys: SessionKeySettings = field(default_factory=SessionKeySettings)
    """How workers sign their requests to each other: inter.worker.key.ttl.ms, ... (KIP-507)."""
    providers: ConfigProviders = NO_PROVIDERS
    """Where the variables of configurations come from: config.providers, ... (KIP-297)."""

    def __post_init__(self) -> None:
        if self.connect_protocol not in MODES:
            raise ConfigError(
                f"connect.protocol must be one of {', '.join(MODES)}, not {self.connect_protocol!r}"
            )
        if self.member.group_instance_id is not None:
            raise ConfigError(
                "group.instance.id is not supported: a group of Connect workers has no static members"
            )
        for kind, suffix in (("config", "configs"), ("offset", "offsets"), ("status", "status")):
            name = f"{kind}_storage_topic"
            if not getattr(self, name):
                object.__setattr__(self, name, f"{self.member.group_id}-connect-{suffix}")
            copies = f"{kind}_storage_replication_factor"
            if getattr(self, copies) is None:
                object.__setattr__(self, copies, self.storage_replication_factor)
        for setting in fields(self):
            least = _LEAST.get(setting.name)
            if least is not None:
                check_integer(setting.name, getattr(self, setting.name), least)

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> "ConnectConfig":
        """Build a configuration from Kafka's dotted keys, keywords, which take precedence, or both.

        Keys of worker.properties that do not apply here are dropped with a warning.

        Raises:
            ConfigError: a key is unknown, or a value is wrong.
        """
        given = {
            key.replace("_", "."): value for key, value in {**(settings or {}), **keywords}.items()
        }
        own: dict[str, Any] = {}
        restart: dict[str, Any] = {}
        names = {each.name for each in fields(cls)} - {
            "member",
            "restart",
            "session_keys",
            "providers",
        }
        for key in list(given):
            name = key.replace(".", "_")
            if name in _FLAGS:
                own[name] = _flag(key, given.pop(key))
            elif name in names:
                value = given.pop(key)
                own[name] = as_integer(key, value) if name in _LEAST else value
            elif name in _RESTART:
                restart[_RESTART[name]] = as_integer(key, given.pop(key))
        keys = SessionKeySettings.take(given)
        providers = ConfigProviders.take(given)
        member = take_java(given)
        for name, (key, _) in by_name(member).items():
            if name not in MEMBER_SETTINGS:
                raise ConfigError(unknown_key(key, names | _RESTART.keys() | MEMBER_SETTINGS))
        return cls(
            member=MemberConfig.of({**_DEFAULTS, **member}),
            restart=RestartPolicy(**restart),
            session_keys=keys,
            providers=providers,
            **own,
        )

    @property
    def topic_tracking(self) -> TopicTracking:
        return TopicTracking(self.topic_tracking_enable, self.topic_tracking_allow_reset)

    @property
    def replication_factors(self) -> dict[str, int]:
        """The replication factor of each topic; -1 for the brokers' default."""
        return {
            getattr(self, f"{kind}_storage_topic"): getattr(
                self, f"{kind}_storage_replication_factor"
            )
            for kind in ("config", "offset", "status")
        }

    def librdkafka(self) -> dict[str, Any]:
        """Return the configuration for confluent-kafka clients; may contain secrets."""
        return client_settings(self.member, logger)


_LEAST: Final = {
    "scheduled_rebalance_max_delay_ms": 0,
    "worker_sync_timeout_ms": 1,
    "task_shutdown_graceful_timeout_ms": 0,
    "offset_storage_partitions": 1,
    "status_storage_partitions": 1,
    "storage_replication_factor": -1,
    "config_storage_replication_factor": -1,
    "offset_storage_replication_factor": -1,
    "status_storage_replication_factor": -1,
    "plan_interval_ms": 0,
}


_FLAGS: Final = frozenset({"topic_tracking_enable", "topic_tracking_allow_reset"})


def _flag(key: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key} must be true or false, not {value!r}")
    return text == "true"
