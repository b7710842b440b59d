"""Keep which topics connectors use, in the records of Kafka Connect's status topic (KIP-558)."""

from dataclasses import dataclass
from typing import Any, Final, Self

from groupsdk.limits import MAX_INT32, MAX_INT64


PREFIX: Final = "status-topic-"
"""How the keys of these records begin."""
_SEPARATOR: Final = ":connector-"
_MAX_TOPIC: Final = 249


@dataclass(frozen=True, slots=True)
class TopicTracking:
    """Whether a worker keeps which topics connectors use."""

    enable: bool = True
    """`topic.tracking.enable`."""
    allow_reset: bool = True
    """Whether they may be forgotten on request: `topic.tracking.allow.reset`."""


TOPIC_TRACKING: Final = TopicTracking()


@dataclass(frozen=True, slots=True)
class TopicUse:
    """The first use of a topic by a connector, since it was created or its topics were last forgotten."""

    topic: str
    connector: str
    task: int
    """The number of the task that used it."""
    discovered_ms: int
    """When, in milliseconds since 1970."""

    @property
    def key(self) -> str:
        """The key of its record."""
        return topic_key(self.topic, self.connector)

    def record(self) -> dict[str, Any]:
        """Return the value of its record."""
        fields = {
            "name": self.topic,
            "connector": self.connector,
            "task": self.task,
            "discoverTimestamp": self.discovered_ms,
        }
        return {"topic": fields}

    @classmethod
    def of(cls, value: object) -> Self | None:
        """Read the value of a record; None: it is none that is known here."""
        fields = value.get("topic") if isinstance(value, dict) else None
        if not isinstance(fields, dict):
            return None
        topic, connector = fields.get("name"), fields.get("connector")
        task, at_ms = fields.get("task"), fields.get("discoverTimestamp")
        if not isinstance(topic, str) or not isinstance(connector, str):
            return None
        number, when_ms = _number(task, MAX_INT32), _number(at_ms, MAX_INT64)
        return None if number is None or when_ms is None else cls(topic, connector, number, when_ms)


class ActiveTopics:
    """The topics of all connectors as the records so far say; not for several threads at a time."""

    def __init__(self) -> None:
        self._uses: dict[str, dict[str, TopicUse]] = {}

    def apply(self, key: str, value: object | None) -> None:
        """Take the next record; one that is not known is passed over."""
        topic, separator, connector = key.removeprefix(PREFIX).partition(_SEPARATOR)
        if not separator:
            return
        if value is None:
            self._uses.get(connector, {}).pop(topic, None)
            return
        use = TopicUse.of(value)
        if use is not None and use.key == key:
            self._uses.setdefault(connector, {})[topic] = use

    def of(self, connector: str) -> list[str]:
        """Return the topics of a connector, sorted."""
        return sorted(self._uses.get(connector, ()))


def topic_key(topic: str, connector: str) -> str:
    """Return the key of a record, as Kafka Connect writes it."""
    return f"{PREFIX}{topic}{_SEPARATOR}{connector}"


def check_topic(topic: object) -> str:
    """Return the name of a topic.

    Raises:
        ValueError: no topic can be called so.
    """
    legal = isinstance(topic, str) and 0 < len(topic) <= _MAX_TOPIC
    if not legal or not all(c.isascii() and (c.isalnum() or c in "._-") for c in str(topic)):
        raise ValueError(
            f"a topic's name has 1 to {_MAX_TOPIC} of the letters a-z, A-Z, digits, '.', '_' and '-',"
            f" not {str(topic)[:60]!r}"
        )
    return str(topic)


def _number(value: object, most: int) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return value if known and isinstance(value, int) else None
