"""Hold a member's settings, under Kafka's configuration names; those of the consumer protocol too."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from groupsdk.errors import ConfigError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_INT32, MAX_STRING_BYTES
from groupsdk.printable import address_text
from groupsdk.settings.security import SecuritySettings, plain_security


if TYPE_CHECKING:
    from groupsdk.settings.keywords import MemberSettings

DEFAULT_PORT: Final = 9092
_INSTANCE_ID: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MAX_CLIENT_ID_BYTES: Final = 32_730  # the broker makes the member id of it, with 37 bytes more
_MIN_REBALANCE_MS: Final = 100  # a group whose members have less for their way never comes to rest
CONSUMER_KEYS: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "statistics.interval.ms",
    }
)
"""Keys that only a consumer of records has, many of them librdkafka's, for suggestions."""
_CONSUMERS: Final = (  # how the names of settings begin that only a consumer of records has
    "auto.",
    "check.crcs",
    "enable.auto.",
    "fetch.",
    "isolation.",
    "max.partition.fetch.",
    "max.poll.records",
    "partition.assignment.",
)
ALIASES: Final = {
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_oauthbearer_assertion_jwt_template_file": "sasl_oauthbearer_assertion_template_file",
    "sasl_oauthbearer_client_credentials_client_id": "sasl_oauthbearer_client_id",
    "sasl_oauthbearer_client_credentials_client_secret": "sasl_oauthbearer_client_secret",
}
"""Other spellings of settings: librdkafka's, and Java's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """The settings of one member.

    Build it with `of`, which takes Kafka's dotted keys as well as keywords. Times are milliseconds.

    Raises:
        ConfigError: a value is missing, of the wrong type or out of bounds.
    """

    bootstrap_servers: str | Iterable[str]
    """The brokers to contact first: "host:port,host:port" or a list; the default port is 9092."""
    group_id: str
    """The group to join."""
    group_instance_id: str | None = None
    """Makes the member static (KIP-345): a restart within the session timeout causes no rebalance."""
    client_id: str = "groupsdk"
    """Shown in the broker's logs and in the member id."""
    session_timeout_ms: int = 45_000
    """How long the group coordinator waits for a heartbeat before it expels the member."""
    heartbeat_interval_ms: int = 3_000
    """How often to heartbeat; less than the session timeout, commonly a third or less."""
    rebalance_timeout_ms: int = 300_000
    """How long the group waits for this member to rejoin; 100 at least."""
    max_poll_interval_ms: int | None = None
    """How long the caller may stay away before the member leaves, 100 at least; None:
    rebalance_timeout_ms."""
    request_timeout_ms: int = 30_000
    """How long to wait for a response, unless a rebalance parks it."""
    retry_backoff_ms: int = 100
    """The delay before the first retry, 1 at least; doubles each time (KIP-580)."""
    retry_backoff_max_ms: int = 1_000
    """The longest delay before a retry."""
    socket_connection_setup_timeout_ms: int = 10_000
    """How long a connection may take, TLS and SASL included."""
    receive_message_max_bytes: int = 100_000_000
    """The largest response accepted; a longer one closes the connection."""
    heartbeat: Literal["thread", "process"] = "thread"
    """Where the member runs: a background thread, or a child process that even native code which holds
    the interpreter's lock for minutes cannot delay. The child cannot have ssl.context, and imports the
    modules of sasl.oauth.token.provider and sasl.credentials.provider."""
    security: SecuritySettings = field(default_factory=SecuritySettings)
    """How connections are encrypted and authenticated; `of` takes its keys along with the others."""

    def __post_init__(self) -> None:
        servers = tuple(parse_servers(self.bootstrap_servers))
        object.__setattr__(
            self, "bootstrap_servers", tuple(address_text(*server) for server in servers)
        )
        if self.max_poll_interval_ms is None:
            object.__setattr__(self, "max_poll_interval_ms", self.rebalance_timeout_ms)
        _check_text("group.id", self.group_id)
        _check_text("client.id", self.client_id, _MAX_CLIENT_ID_BYTES)
        _check_instance_id(self.group_instance_id)
        for name in _MILLISECONDS:
            minimum = _MIN_REBALANCE_MS if name in _REBALANCE_MS else 1
            check_integer(name, getattr(self, name), minimum)
        check_integer("receive_message_max_bytes", self.receive_message_max_bytes, 1_000)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be less than"
                f" session.timeout.ms ({self.session_timeout_ms}), commonly a third of it or less"
            )
        if self.heartbeat not in ("thread", "process"):
            raise ConfigError(f"heartbeat must be 'thread' or 'process', not {self.heartbeat!r}")
        if not isinstance(self.security, SecuritySettings):
            raise ConfigError(
                f"security must be SecuritySettings, not {type(self.security).__name__}"
            )
        self.security.validate()
        if self.heartbeat == "process":
            _check_sendable(self.security)

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any] | None = None,
        /,
        **keywords: "Unpack[MemberSettings]",
    ) -> "MemberConfig":
        """Build a configuration from Kafka's dotted keys, keywords, or both.

        Args:
            settings: ``{"group.id": "g", "session.timeout.ms": 10000}``; underscores do as well.
            keywords: ``group_id="g"``; wins over `settings`.

        Raises:
            ConfigError: a key is unknown (with the closest known one) or given twice, or a value is wrong.
        """
        security_keys = {each.name for each in fields(SecuritySettings)}
        known = {each.name for each in fields(cls)} | security_keys
        values: dict[str, Any] = {}
        security: dict[str, Any] = {}
        given = {**by_name({} if settings is None else settings), **by_name(keywords)}
        for name, (key, value) in given.items():
            if name not in known:
                raise ConfigError(unknown_key(key, known))
            if name in security_keys:
                security[name] = plain_security(name, value)
            else:
                values[name] = as_integer(key, value) if name in _NUMBERS else value
        for required in ("bootstrap_servers", "group_id"):
            if values.get(required) is None:
                raise ConfigError(f"{required.replace('_', '.')} is missing")
        if security:
            if "security" in values:
                raise ConfigError(
                    f"security and {', '.join(sorted(security))}: give the one or the others"
                )
            values["security"] = SecuritySettings(**security)
        return cls(**values)

    @classmethod
    def given(
        cls, settings: "Mapping[str, Any] | MemberConfig | None", keywords: Mapping[str, Any]
    ) -> "MemberConfig":
        """Return `settings` if it is a configuration already, otherwise the result of `of`.

        Args:
            settings: a configuration, or settings by Kafka's dotted keys.
            keywords: settings by keyword; empty with a configuration.

        Raises:
            ConfigError: see `of`; also for keywords along with a configuration.
        """
        if not isinstance(settings, MemberConfig):
            return cls.of(settings, **keywords)
        if keywords:
            raise ConfigError(
                f"{', '.join(sorted(keywords))}: give a MemberConfig or keywords, not both"
            )
        return settings

    @property
    def servers(self) -> tuple[tuple[str, int], ...]:
        """The bootstrap servers as (host, port)."""
        return tuple(parse_servers(self.bootstrap_servers))

    @property
    def poll_interval_ms(self) -> int:
        """max.poll.interval.ms, or the rebalance timeout where it is not set."""
        return self.max_poll_interval_ms or self.rebalance_timeout_ms

    @property
    def join_timeout_ms(self) -> int:
        """How long a join, or the sync of a follower, may be parked: the rebalance timeout and 5 s, as in Kafka's client."""
        return max(self.request_timeout_ms, min(self.rebalance_timeout_ms + 5_000, MAX_INT32))


_MILLISECONDS: Final = tuple(
    each.name for each in fields(MemberConfig) if each.name.endswith("_ms")
)
MEMBER_SETTINGS: Final = frozenset(
    each.name for config in (MemberConfig, SecuritySettings) for each in fields(config)
)
"""The names of a member's settings."""
_REBALANCE_MS: Final = ("rebalance_timeout_ms", "max_poll_interval_ms")
_NUMBERS: Final = frozenset((*_MILLISECONDS, "receive_message_max_bytes"))


def parse_servers(servers: str | Iterable[str]) -> list[tuple[str, int]]:
    """Parse addresses into pairs of host and port.

    Args:
        servers: "host:port,host:port", or several strings of one address each.

    Raises:
        ConfigError: there is no address, or one cannot be parsed.
    """
    given: Any = servers.split(",") if isinstance(servers, str) else servers
    if isinstance(given, (bytes, bytearray)) or not isinstance(given, Iterable):
        raise ConfigError(f"bootstrap.servers must be a string or a list of strings, not {given!r}")
    parts = list(given)
    for part in parts:
        if not isinstance(part, str):
            raise ConfigError(
                f"bootstrap.servers must hold strings such as 'host:9092', not {part!r}"
            )
        _check_utf8("bootstrap.servers", part)
    addresses = [_parse_server(part.strip()) for part in parts if part.strip()]
    if not addresses:
        raise ConfigError("bootstrap.servers is empty; give host:port, several with commas")
    return addresses


def _parse_server(text: str) -> tuple[str, int]:
    if "://" in text:
        raise ConfigError(
            f"bootstrap.servers: {text!r} is a URL; give host:port, and set security.protocol"
        )
    if text.startswith("["):  # an IPv6 address with a port
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        malformed = not bracket or (rest != "" and not rest.startswith(":"))
    elif text.count(":") > 1:  # an IPv6 address without one
        host, port, malformed = text, "", False
    else:
        host, colon, port = text.partition(":")
        malformed = bool(colon) and not port
    if malformed or not host or (port and not (port.isdecimal() and 0 < int(port) < 65_536)):
        raise ConfigError(f"bootstrap.servers: {text!r} is not host:port with a port of 1 to 65535")
    return host, int(port) if port else DEFAULT_PORT


def by_name(settings: Any) -> dict[str, tuple[str, Any]]:
    """Return the settings by their names with underscores, each with the key that it was given under."""
    check_mapping(settings)
    by_name: dict[str, tuple[str, Any]] = {}
    for key, value in settings.items():
        if not isinstance(key, str):
            raise ConfigError(
                f"the keys of settings must be strings such as 'group.id', not {key!r}"
            )
        name = key.replace(".", "_")
        name = ALIASES.get(name, name)
        if name in by_name:
            raise ConfigError(
                f"{by_name[name][0]} and {key} are the same setting: give one of them"
            )
        by_name[name] = key, value
    return by_name


def check_mapping(settings: object) -> None:
    if not isinstance(settings, Mapping):
        raise ConfigError(
            "the settings must be a mapping such as {'bootstrap.servers': 'host:9092', 'group.id': 'g'},"
            f" or keywords, not {type(settings).__name__}"
        )


def unknown_key(key: str, known: Collection[str]) -> str:
    """Return the message of the error for a key that is no setting, with the closest known one.

    Args:
        known: the names of all settings, with underscores.
    """
    # only for the error, so that importing groupsdk does not pay for it
    from difflib import get_close_matches

    dotted = {name.replace("_", "."): name for name in known}
    wanted = key.replace("_", ".")
    close = get_close_matches(wanted, {*dotted, *CONSUMER_KEYS}, n=1)
    part = [each for each in dotted if f".{wanted}." in f".{each}."]
    if close and close[0] in CONSUMER_KEYS and close[0] != wanted:
        hint = f"; did you mean {close[0]}, a setting of groupsdk.consumer.GroupConsumer?"
    elif wanted.startswith(_CONSUMERS):
        hint = "; that is a setting of groupsdk.consumer.GroupConsumer, which reads records"
    elif close := close or part[:1]:
        hint = f"; did you mean {close[0]} ({dotted[close[0]]})?"
    else:
        hint = ""
    return f"unknown setting {key!r}{hint}"


def as_integer(key: str, value: Any) -> Any:
    """Convert a string from a file or the environment."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ConfigError(f"{key} must be an integer, not {value!r}") from None
    return value


def check_integer(name: str, value: object, minimum: int, maximum: int = MAX_INT32) -> None:
    """Raise ConfigError for the value of a setting that is no integer within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ConfigError(
            f"{name.replace('_', '.')} must be an integer from {minimum} to {maximum}, not {value!r}"
        )


def _check_text(key: str, value: object, max_bytes: int = MAX_STRING_BYTES) -> None:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{key} must be a non-empty string, not {value!r}")
    if _check_utf8(key, value) > max_bytes:
        raise ConfigError(f"{key} is longer than {max_bytes} bytes")


def _check_utf8(key: str, value: str) -> int:
    """Return how long a text is in UTF-8."""
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{key} is {value!r}, which cannot be encoded as UTF-8") from None


def _check_instance_id(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not _INSTANCE_ID.fullmatch(value) or value in (".", ".."):
        raise ConfigError(
            f"group.instance.id must be 1 to 249 of the characters a-z A-Z 0-9 . _ -,"
            f" and not '.' or '..'; got {value!r:.300}"
        )


def _check_sendable(security: SecuritySettings) -> None:
    """Refuse settings that cannot go to the child process of heartbeat='process'."""
    if security.ssl_context is not None:
        raise ConfigError(
            "ssl.context cannot be sent to the child process of heartbeat='process': use"
            " ssl.ca.location, ssl.certificate.location, ssl.key.location and the like"
        )
    for name in ("sasl_credentials_provider", "sasl_oauth_token_provider"):
        provider = getattr(security, name)
        if provider is not None:
            _check_picklable(name.replace("_", "."), provider)


def _check_picklable(name: str, provider: object) -> None:
    # only where there is something to check, so that importing groupsdk does not pay for it
    import pickle
    import pickletools

    remedy = (
        "the child process of heartbeat='process' imports it: give a function, or an object of a class,"
        " that stands at the top of a module"
    )
    try:
        data = pickle.dumps(provider)
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        # not the text of the error, which may show what the provider holds
        raise ConfigError(f"{name} cannot be pickled ({type(error).__name__}); {remedy}") from None
    if any(argument == "__main__" for _, argument, _ in pickletools.genops(data)):
        raise ConfigError(
            f"{name} is defined in the program that was started (__main__), which"
            f" another process cannot import; {remedy}"
        )


DEFAULT_INTERVAL_MS: Final = 5_000
"""The broker's default of `group.consumer.heartbeat.interval.ms`: used until the first response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberConfig(MemberConfig):
    """The settings of one member of the consumer protocol (KIP-848).

    How long a session lasts and how often to heartbeat is up to the broker: `session_timeout_ms` and
    `heartbeat_interval_ms` only stand in until it has told. The rebalance timeout is max.poll.interval.ms.
    """

    heartbeat_interval_ms: int = DEFAULT_INTERVAL_MS
    server_assignor: str | None = None
    """Which of the broker's assignors to vote for (`group.remote.assignor`); None: the broker's choice."""
    rack_id: str | None = None
    """Where the member runs (`client.rack`), for assignors of the broker that heed it."""

    @override
    def __post_init__(self) -> None:
        # not super(): the class that a dataclass with slots makes is another one than this
        MemberConfig.__post_init__(self)
        given: tuple[tuple[str, Any], ...] = (
            ("group.remote.assignor", self.server_assignor),
            ("client.rack", self.rack_id),
        )
        for key, value in given:
            if value is None:
                continue
            if not isinstance(value, str) or not value or len(value.encode()) > MAX_STRING_BYTES:
                raise ConfigError(
                    f"{key} must be a string of 1 to {MAX_STRING_BYTES} bytes, not {value!r}; leave it out for none"
                )
