"""Dead letters (KIP-298): records that cannot be processed, with what went wrong in their headers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self


Headers = Sequence[tuple[str, bytes | None]]

_HEADER: Final = "__connect.errors."
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class ErrantRecord:
    """A record that cannot be handled, in the form written to the dead letter topic."""

    key: bytes | None = None
    """The record's key; None for none."""
    value: bytes | None = None
    """The record's value; None for none."""
    headers: Headers = ()
    """The record's headers, in order."""
    topic: str | None = None
    """The topic that it comes from; None if it is not from Kafka."""
    partition: int | None = None
    """The partition of that topic."""
    offset: int | None = None
    """The offset in that partition."""

    @classmethod
    def of(cls, record: object) -> Self:
        """Convert a record to the form in which it can be written.

        Args:
            record: a message of confluent-kafka, bytes, a string, or any other value, which is encoded as JSON or by
                `repr`.
        """
        if isinstance(record, cls):
            return record
        if callable(getattr(record, "topic", None)) and callable(getattr(record, "offset", None)):
            return cls._of_message(record)
        return cls(value=_as_bytes(record))

    @classmethod
    def _of_message(cls, message: Any) -> Self:
        return cls(
            _as_bytes(message.key()),
            _as_bytes(message.value()),
            tuple((name, _as_bytes(value)) for name, value in message.headers() or ()),
            message.topic(),
            message.partition(),
            message.offset(),
        )

    @property
    def place(self) -> str:
        """The origin of the record, for logs."""
        if self.topic is None:
            return f"key={_shown(self.key)} value={_shown(self.value)}"
        return f"topic={self.topic} partition={self.partition} offset={self.offset}"


def context_headers(
    record: ErrantRecord,
    *,
    connector: str,
    task: int,
    stage: str,
    class_name: str,
    error_class: str,
    message: str,
    trace: str,
) -> Headers:
    """Return the headers of a dead letter: a description of the failure, under Kafka Connect's names (KIP-298).

    Args:
        record: the record; for one that is not from Kafka, topic, partition and offset are left out.
        connector: the connector, or the group that reads the record.
        stage: the stage of processing, by Kafka Connect's name.
        class_name: what failed: the qualified name of a task's class or of a handler.
        error_class: the qualified name of the error's class.
    """
    told: dict[str, object | None] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "connector.name": connector,
        "task.id": task,
        "stage": stage,
        "class.name": class_name,
        "exception.class.name": error_class,
        "exception.message": message,
        "exception.stacktrace": trace,
    }
    return [
        (f"{_HEADER}{name}", None if value is None else str(value).encode(errors="replace"))
        for name, value in told.items()
        if value is not None or record.topic is not None
    ]


def _as_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    try:
        return json.dumps(value, default=repr).encode()
    except (TypeError, ValueError):  # keys that JSON does not have, or a list that contains itself
        return repr(value).encode(errors="replace")


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = data[:_SHOWN].decode(errors="replace")
    return repr(text) + ("..." if len(data) > _SHOWN else "")
