"""Compares some messages with kio, which reads Kafka's schemas itself."""

import io
from datetime import timedelta
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from typing_extensions import override

from groupsdk.wire.compiler import decode, encode
from groupsdk.wire.schema import Message, Struct, declared_fields
from tests.conformance.cases import Filling
from tests.support.cases import each_case
from tests.wire.strategies import MESSAGES


NAMES = ("heartbeat", "join_group", "leave_group", "sync_group", "offset_commit", "describe_groups")

CASES = [
    (
        message,
        version,
        f"kio.schema.{name}.v{version}.{kind.lower()}",
    )
    for name in NAMES
    for kind in ("Request", "Response")
    for message in MESSAGES
    if message.__name__ == name.title().replace("_", "") + kind
    for version in range(message.api.min_version, message.api.max_version + 1)
]

_RENAMED = {"throttle_time_ms", "session_timeout_ms", "rebalance_timeout_ms", "retention_time_ms"}


class Codes(Filling):
    """Fills error codes with zero: kio refuses the ones that it does not know."""

    @override
    def integer(self, width: Any) -> int:
        return 0 if width.code == "h" else super().integer(width)


def agree(ours: Any, theirs: Any, version: int) -> None:
    """Asserts that two decoded values say the same."""
    if isinstance(ours, Struct):
        for each in declared_fields(type(ours)):
            if version in each.versions:
                name = each.name.removesuffix("_ms") if each.name in _RENAMED else each.name
                agree(getattr(ours, each.name), getattr(theirs, name), version)
    elif isinstance(ours, tuple):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            agree(mine, other, version)
    elif isinstance(theirs, timedelta):
        assert timedelta(milliseconds=ours) == theirs
    elif isinstance(theirs, KioErrorCode):
        assert ours == theirs.value
    else:
        assert ours == theirs


@each_case(("message", "version", "module"), CASES)
def test_kio_decodes_the_same_fields(message: type[Message], version: int, module: str) -> None:
    theirs = getattr(import_module(module), message.__name__)
    ours = Codes().struct(message, version)
    data = encode(ours, version)

    read, size = entity_reader(theirs)(data, 0)
    agree(ours, read, version)
    assert size == len(data)

    written = io.BytesIO()
    entity_writer(theirs)(written, read)
    assert written.getvalue() == data
    assert decode(message, version, written.getvalue()) == ours
