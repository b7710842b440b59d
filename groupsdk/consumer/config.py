"""A consumer's settings: the member's, the consumer's own, and those passed to librdkafka."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from groupsdk.assignment import AssignorLike
from groupsdk.consumer.strategies import Strategies
from groupsdk.errors import ConfigError
from groupsdk.member.classic.rebalance import KAFKA_ASSIGNORS
from groupsdk.settings.config import (
    ALIASES,
    CONSUMER_KEYS,
    ConsumerMemberConfig,
    MemberConfig,
    check_integer,
    check_mapping,
)
from groupsdk.settings.librdkafka import client_settings
from groupsdk.settings.security import SecuritySettings
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE


if TYPE_CHECKING:
    from groupsdk.consumer.keywords import ConsumerSettings


_WORDS: Final = {
    **dict.fromkeys(("earliest", "smallest", "beginning"), "earliest"),
    **dict.fromkeys(("latest", "largest", "end"), "latest"),
    **dict.fromkeys(("none", "error"), "none"),
}
_DEFAULT_RESET: Final = "latest"
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?",
    re.ASCII,
)
_MOST_MS: Final = 2**62
_PROTOCOLS: Final = ("classic", "consumer", "auto")
_MOST_TYPE_CHARACTERS: Final = 255
_TAKEN_TYPES: Final = {
    "connect": "Kafka Connect's workers",
    "sr": "Schema Registry's nodes",
    "leader-election": "groupsdk's LeaderElection",
}
"""Protocol types whose members send something else than consumers do."""
_OURS_ALONE: Final = frozenset(
    {
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "rebalance.timeout.ms",
        "partition.assignment.strategy",
        "group.instance.id",
        "enable.auto.commit",
        "auto.commit.interval.ms",
        "enable.auto.offset.store",
    }
)
"""Keys of librdkafka that would be about a membership of its own, which it must not have."""
_FROM_JAVA: Final = {
    "fetch.max.wait.ms": "librdkafka calls it fetch.wait.max.ms",
    "max.poll.records": "give the number to consume(num_messages) instead",
    "receive.buffer.bytes": "librdkafka calls it socket.receive.buffer.bytes",
    "send.buffer.bytes": "librdkafka calls it socket.send.buffer.bytes",
}
"""Settings of Java's consumer, and what takes their place."""


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where to start without a committed offset, or if the committed offset is out of range.

    `strategy` is "earliest", "latest", "none" for an error, or "by_duration", so long back from now (KIP-1106).
    """

    strategy: str
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: object) -> "OffsetReset":
        """Read the setting, or raise ConfigError if it is not the name of a place."""
        lowered = text.strip().lower() if isinstance(text, str) else ""
        strategy = _WORDS.get(lowered)
        if strategy is not None:
            return cls(strategy)
        if lowered.startswith(_BY_DURATION):
            return cls("by_duration", _duration_ms(lowered.removeprefix(_BY_DURATION), text))
        raise ConfigError(
            f"auto.offset.reset must be earliest, latest, none or by_duration:P<days>DT<hours>H<minutes>M<seconds>S,"
            f" not {text!r}"
        )

    @property
    def native(self) -> str:
        """The value for librdkafka, which does not support durations: their offsets are looked up for it."""
        return self.strategy if self.strategy in ("earliest", "latest") else "error"

    def normal(self, text: str) -> str:
        if self.strategy != "by_duration":
            return self.strategy
        return _BY_DURATION + text.strip()[len(_BY_DURATION) :].upper()


def _duration_ms(text: str, given: object) -> int:
    match = _DURATION.fullmatch(text.upper())
    if match is None or not any(match.groups()):
        raise ConfigError(
            f"auto.offset.reset: {given!r} needs a non-negative ISO 8601 duration, such as"
            " by_duration:PT6M or by_duration:P1DT12H"
        )
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups()[:4])
    whole_ms = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    return min(whole_ms + int((match[5] or "0").ljust(9, "0")) // 1_000_000, _MOST_MS)


_BROKERS: Final = {
    "session.timeout.ms": "the group's setting consumer.session.timeout.ms, or the broker's"
    " group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "the group's setting consumer.heartbeat.interval.ms, or the broker's"
    " group.consumer.heartbeat.interval.ms",
    "partition.assignment.strategy": "group.remote.assignor, one of the broker's group.consumer.assignors",
}
"""What takes the place of settings that the consumer protocol does not have: there the broker decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The settings of one consumer.

    Build it with `of`. Times are milliseconds.

    Raises:
        ConfigError: a value is of the wrong type or out of bounds.
    """

    member: MemberConfig
    """The settings of its group membership."""
    partition_assignment_strategy: AssignorLike | Sequence[AssignorLike] = (
        "range",
        "cooperative-sticky",
    )
    """The assignors, by preference: names, places ("package.module:Class"), classes or assignors."""
    group_protocol: Literal["classic", "consumer", "auto"] = "classic"
    """The group protocol: "classic"; "consumer" for KIP-848, where the broker assigns and partitions move one by one;
    or "auto" for the latter if broker and group support it and partition.assignment.strategy names no assignor but
    Kafka's."""
    group_protocol_type: str = CONSUMER_PROTOCOL_TYPE
    """The type of the group in the classic protocol, as in "work". A group of a type of its own takes in no member of
    type "consumer" and none of KIP-848 while it has members, so the clients' assignors stay in charge."""
    group_remote_assignor: str | None = None
    """Which of the broker's assignors to vote for, with the consumer protocol; None: the broker's choice."""
    auto_offset_reset: str = _DEFAULT_RESET
    """Where to begin without a committed offset: "earliest", "latest", "none" for an error, or so far back from now:
    "by_duration:PT6M" (KIP-1106)."""
    enable_auto_commit: bool = True
    """Whether positions are committed periodically, before partitions are revoked, and at the end."""
    auto_commit_interval_ms: int = 5_000
    """How often positions are committed in the background."""
    enable_auto_offset_store: bool = True
    """Whether the records that `poll` and `consume` returned count as processed at the next call; otherwise
    `store_offsets` marks them."""
    client_rack: str | None = None
    """The consumer's rack, for assignors and brokers that use racks (KIP-881, KIP-392)."""
    metadata_max_age_ms: int = 300_000
    """How often to check whether the group's topics have changed."""
    exclude_internal_topics: bool = True
    """Whether patterns skip Kafka's internal topics."""
    allow_auto_create_topics: bool = False
    """Whether fetching a topic's metadata may create it, if the brokers allow that."""
    default_api_timeout_ms: int = 60_000
    """How long a call without a timeout of its own may take."""
    librdkafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The configuration of confluent-kafka's consumer; may hold secrets."""

    def __post_init__(self) -> None:
        if self.member.rebalance_timeout_ms != self.member.poll_interval_ms:
            raise ConfigError(
                f"rebalance.timeout.ms ({self.member.rebalance_timeout_ms}) must be max.poll.interval.ms"
                f" ({self.member.poll_interval_ms}) for a consumer (KIP-62); set max.poll.interval.ms alone"
            )
        reset = OffsetReset.parse(self.auto_offset_reset)
        object.__setattr__(self, "auto_offset_reset", reset.normal(str(self.auto_offset_reset)))
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name.endswith("_ms"):
                check_integer(setting.name, value, 1)
            if setting.type is bool and not isinstance(value, bool):
                raise ConfigError(f"{_dotted(setting.name)} must be true or false, not {value!r}")
        if self.group_protocol not in _PROTOCOLS:
            raise ConfigError(
                f"group.protocol must be {', '.join(_PROTOCOLS[:-1])} or {_PROTOCOLS[-1]}, not"
                f" {self.group_protocol!r}"
            )
        _check_type(self.group_protocol_type, self.group_protocol)
        if self.group_protocol == "classic" and self.group_remote_assignor is not None:
            raise ConfigError(
                "group.remote.assignor needs group.protocol=consumer: in the classic protocol a member assigns, by"
                " partition.assignment.strategy"
            )
        if self.group_protocol != "classic":
            self.consumer_member()  # which checks what is only its own

    def consumer_member(self) -> ConsumerMemberConfig:
        """Return the member's configuration for the consumer protocol."""
        given = {each.name: getattr(self.member, each.name) for each in fields(MemberConfig)}
        for name in ("session_timeout_ms", "heartbeat_interval_ms"):
            del given[name]
        return ConsumerMemberConfig(
            **given, server_assignor=self.group_remote_assignor, rack_id=self.client_rack or None
        )

    @property
    def assignor_of_its_own(self) -> str | None:
        """Return the name of a configured assignor that brokers do not have; None otherwise."""
        return next(
            (
                each.name
                for each in Strategies(self.partition_assignment_strategy)
                if each.name not in KAFKA_ASSIGNORS
            ),
            None,
        )

    @overload
    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any] | None = None,
        /,
        **keywords: "Unpack[ConsumerSettings]",
    ) -> "ConsumerConfig": ...

    @overload
    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any] | None = None,
        /,
        **keywords: Any,  # of librdkafka
    ) -> "ConsumerConfig": ...

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> "ConsumerConfig":
        """Build a configuration from Kafka's dotted keys, keywords, or both.

        Keys that are settings of neither the member nor the consumer, such as `fetch.min.bytes`, are passed to
        librdkafka.

        Args:
            settings: by Kafka's dotted keys, or with underscores.
            keywords: the same by keyword; a key must not be in both.

        Raises:
            ConfigError: a value is invalid, or a key is given twice. librdkafka rejects unknown keys when the
                consumer is created.
        """
        settings = {} if settings is None else settings
        check_mapping(settings)
        given: dict[str, Any] = {}
        for key, value in [*settings.items(), *keywords.items()]:
            if not isinstance(key, str):
                raise ConfigError(f"the keys of settings must be strings, not {key!r}")
            given[_dotted(key)] = value
        spelled = {_dotted(alias): _dotted(name) for alias, name in ALIASES.items()}
        given = {spelled.get(key, key): value for key, value in given.items()}
        members = _keys(MemberConfig) | _keys(SecuritySettings)
        owns = _keys(cls) - {"member", "librdkafka"}
        if given.get("group.protocol") == "consumer":
            _refuse_classic(given)
        member = {key: value for key, value in given.items() if key in members}
        if "max.poll.interval.ms" in member:
            member.setdefault("rebalance.timeout.ms", member["max.poll.interval.ms"])
        own = {
            key.replace(".", "_"): _plain(key, value) for key, value in given.items() if key in owns
        }
        rest = {key: value for key, value in given.items() if key not in members | owns}
        config = MemberConfig.of(member)
        reset = OffsetReset.parse(own.get("auto_offset_reset", _DEFAULT_RESET))
        return cls(member=config, librdkafka=_librdkafka(config, rest, own, reset.native), **own)


def _check_type(name: object, protocol: str) -> None:
    """Check `group.protocol.type`, and that the classic protocol is used with a type of its own.

    Raises ConfigError if it cannot be used.
    """
    if not (
        isinstance(name, str) and 0 < len(name) <= _MOST_TYPE_CHARACTERS and name.isprintable()
    ):
        raise ConfigError(
            f"group.protocol.type must be a string of 1 to {_MOST_TYPE_CHARACTERS} printable characters, such as"
            f" 'work', not {name!r}"
        )
    if name in _TAKEN_TYPES:
        raise ConfigError(
            f"group.protocol.type={name} is the type of groups of {_TAKEN_TYPES[name]}: choose another, such as"
            " 'work'"
        )
    if name != CONSUMER_PROTOCOL_TYPE and protocol != "classic":
        raise ConfigError(
            f"group.protocol.type={name} needs group.protocol=classic, not {protocol}: in the consumer protocol"
            " (KIP-848) all groups are consumers'"
        )


def _refuse_classic(given: Mapping[str, Any]) -> None:
    """Reject settings that only the classic protocol has, as Kafka's client does; says what takes their place."""
    refused = [key for key in _BROKERS if key in given]
    if refused:
        places = "; ".join(f"{key}: {_BROKERS[key]}" for key in refused)
        raise ConfigError(
            f"{', '.join(refused)} cannot be set with group.protocol=consumer, where the broker decides. Instead of"
            f" {places}"
        )


def refusal(told: str) -> str:
    """Build the error for settings that librdkafka refuses, suggesting our setting for an unknown key."""
    from difflib import get_close_matches  # only a mistake needs it

    key = told.split('"')[1] if told.count('"') > 1 else ""
    hint = ""
    if told.startswith("No such configuration property"):
        ours = _keys(MemberConfig) | _keys(SecuritySettings) | _keys(ConsumerConfig)
        close = get_close_matches(key, (ours | CONSUMER_KEYS) - {"member", "librdkafka"}, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
    if key.endswith("deserializer"):
        hint = ": the key and value of a record are bytes; deserialize them yourself"
    return f"librdkafka refuses its settings: {told}{hint}"


def _librdkafka(
    member: MemberConfig, rest: Mapping[str, Any], own: Mapping[str, Any], reset: str
) -> dict[str, Any]:
    """Return librdkafka's settings for a consumer that only reads."""
    refused = sorted(_OURS_ALONE & rest.keys())
    if refused:
        raise ConfigError(
            f"{', '.join(refused)}: remove it: groupsdk runs the group membership, and librdkafka only reads"
        )
    # librdkafka takes max.poll.records, for its share consumers, and ignores it in all others
    for key in sorted(_FROM_JAVA.keys() & rest.keys()):
        raise ConfigError(f"{key} is not a setting here; {_FROM_JAVA[key]}")
    result = {
        # so that nothing but our own words decides about the membership
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": False,
        # By default librdkafka rests for a second whenever its queue is full, which a fast reader then waits
        # for: a quarter of the rate, with small records.
        "fetch.queue.backoff.ms": 20,
        "group.id": member.group_id,
        "auto.offset.reset": reset,
        "allow.auto.create.topics": own.get("allow_auto_create_topics", False),
        **client_settings(member),
    }
    if own.get("client_rack"):
        result["client.rack"] = own["client_rack"]
    if "metadata_max_age_ms" in own:
        result["topic.metadata.refresh.interval.ms"] = own["metadata_max_age_ms"]
        result["metadata.max.age.ms"] = max(own["metadata_max_age_ms"], 1_000)
    return result | dict(rest)


def _keys(config: type) -> set[str]:
    return {_dotted(each.name) for each in fields(config)}


def _dotted(name: str) -> str:
    if name in ("log_level", "log.level"):  # the one key of librdkafka with an underscore
        return "log_level"
    # the callbacks of confluent-kafka are spelled like this
    return name if name.endswith("_cb") or name == "logger" else name.replace("_", ".")


def _plain(key: str, value: Any) -> Any:
    """Convert a string from a file or the environment to the setting's type."""
    if not isinstance(value, str):
        return value
    if key.endswith(".ms") and value.strip().isdecimal():
        return int(value)
    if key.startswith(("enable.", "exclude.", "allow.")) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value
