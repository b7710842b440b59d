"""Format log records as JSON lines, with the group, member and generation as separate fields."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from groupsdk.lazy_imports import override
from groupsdk.printable import printable_json


_PREFIXES: Final = (
    ("group=%s member=%s generation=%d: ", ("group_id", "member_id", "generation_id")),
    ("group=%s member=%s epoch=%d: ", ("group_id", "member_id", "generation_id")),
    ("group=%s generation=%d: ", ("group_id", "generation_id")),
    ("group=%s epoch=%d: ", ("group_id", "generation_id")),
    ("group=%s: ", ("group_id",)),
)
"""The prefixes of the library's log lines, and the meaning of their first arguments. An epoch is the generation of a
group of the consumer protocol (KIP-848).
"""
_STANDARD: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})


def group_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the `group_id`, `member_id` and `generation_id` that a log record of the library begins with, if it has them."""
    template, values = record.msg, record.args
    if not isinstance(template, str) or not isinstance(values, tuple):
        return {}
    for prefix, names in _PREFIXES:
        if template.startswith(prefix) and len(values) >= len(names):
            return dict(zip(names, values, strict=False))
    return {}


class GroupFieldsFilter(logging.Filter):
    """Sets the attributes `group_id`, `member_id` and `generation_id` of each record, for any formatter.

    Add it to a handler. Records that name no group get "", "" and -1.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Set the attributes; return True, so that no record is dropped."""
        fields = group_fields(record)
        record.group_id = fields.get("group_id", "")
        record.member_id = fields.get("member_id", "")
        record.generation_id = fields.get("generation_id", -1)
        return True


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON.

    Fields: `time` (UTC, ISO 8601, milliseconds), `level`, `logger`, `message`; `group_id`, `member_id`, `generation_id` where
    the record is of a group; `exception` with the traceback; and whatever was passed as `extra`.

    Args:
        fields: further fields of every line, such as a service's name.
    """

    def __init__(self, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._fields = dict(fields or {})

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line end."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields,
            **group_fields(record),
        }
        line |= {name: each for name, each in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return printable_json(json.dumps(line, default=str, ensure_ascii=False))
