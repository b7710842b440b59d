"""Encode and decode what a member says about itself to the leader's assignor: a `MemberReport` behind its user data.

Other clients write none, and theirs pass over it: Java's, librdkafka's and the Python assignors read their user data from the
front. docs/assignors.md lists the bytes.
"""

import logging
import struct
from collections.abc import Mapping
from math import isfinite
from typing import Final
from zlib import crc32

from groupsdk.assignment.contract import Lags, MemberReport
from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
)


logger = logging.getLogger(__name__)

GREATEST_LOAD: Final = 1e15
"""The greatest load of a member."""
MOST_LAGS: Final = 20_000
"""How many partitions a report tells the lag of; of more, those with the greatest."""

_MAGIC: Final = b"groupsdk"
_VERSION: Final = 0
_NO_USER_DATA, _LOAD_KNOWN = 1, 2
_HEAD = struct.Struct(">hBdH")
_TAIL = struct.Struct(">II8s")
_MANTISSA_BITS: Final = 11
_MOST_SHIFTS: Final = 31
_MOST_CLIENT_ID: Final = 255


def is_load(value: float) -> bool:
    """Return whether a number is a valid load."""
    return isfinite(value) and 0 <= value <= GREATEST_LOAD


def with_report(user_data: bytes | None, report: MemberReport) -> bytes:
    """Return an assignor's user data with a report behind it.

    Raises EncodeError if a topic's name does not fit its field.
    """
    lags = _greatest(report.lags)
    topics = ConsumerProtocolAssignment({topic: tuple(each) for topic, each in lags.items()})
    numbers = [_rounded(lag) for each in lags.values() for lag in each.values()]
    client_id = report.client_id.encode(errors="replace")[:_MOST_CLIENT_ID]
    flags = (_NO_USER_DATA if user_data is None else 0) | (
        0 if report.load is None else _LOAD_KNOWN
    )
    body = b"".join(
        (
            _HEAD.pack(_VERSION, flags, report.load or 0.0, len(client_id)),
            client_id,
            struct.pack(f">I{len(numbers)}H", len(numbers), *numbers),
            ConsumerProtocolEncoder().assignment(topics, 0),
        )
    )
    return (user_data or b"") + body + _TAIL.pack(len(body), crc32(body), _MAGIC)


def split_report(user_data: bytes | None) -> tuple[bytes | None, MemberReport | None]:
    """Return an assignor's own user data, and the member's report behind it.

    Anything else than an intact report of a version from 0 on is left with the user data.
    """
    if user_data is None or not user_data.endswith(_MAGIC) or len(user_data) < _TAIL.size:
        return user_data, None
    end = len(user_data) - _TAIL.size
    size, checksum, _ = _TAIL.unpack_from(user_data, end)
    body = user_data[max(0, end - size) : end]
    if size > end or crc32(body) != checksum:
        return user_data, None
    try:
        flags, report = _decode(body)
    except (DecodeError, struct.error) as error:
        logger.debug("a member's report of %d bytes is ignored: %s", size, error)
        return user_data, None
    return (None if flags & _NO_USER_DATA else user_data[: end - size]), report


def merged_lags(reports: Mapping[str, MemberReport | None]) -> dict[str, dict[int, int]]:
    """Return the lag of each partition that a member tells of; of several, the greatest."""
    merged: dict[str, dict[int, int]] = {}
    for report in reports.values():
        for topic, lags in report.lags.items() if report is not None else ():
            known = merged.setdefault(topic, {})
            for partition, lag in lags.items():
                known[partition] = max(lag, known.get(partition, 0))
    return merged


def _decode(body: bytes) -> tuple[int, MemberReport]:
    version, flags, load, length = _HEAD.unpack_from(body)
    if version < _VERSION:
        raise DecodeError(f"version {version} of a member's report is invalid")
    at = _HEAD.size + length
    client_id = body[_HEAD.size : at].decode(errors="replace")
    (count,) = struct.unpack_from(">I", body, at)
    at += 4
    if count > min(MOST_LAGS, (len(body) - at) // 2):
        raise DecodeError(f"{count} lags with {len(body) - at} bytes left")
    numbers = iter(struct.unpack_from(f">{count}H", body, at))
    topics = ConsumerProtocolDecoder().assignment(body[at + 2 * count :]).assigned_partitions
    if sum(map(len, topics.values())) != count:
        raise DecodeError(f"{count} lags of another number of partitions")
    lags = {
        topic: {
            partition: _exact(number) for partition, number in zip(listed, numbers, strict=False)
        }
        for topic, listed in topics.items()
    }
    known = bool(flags & _LOAD_KNOWN) and is_load(load)
    return flags, MemberReport(client_id, load if known else None, lags)


def _greatest(lags: Lags) -> Lags:
    """Return lags in order, at most as many as a report may have."""
    listed = [
        (-lag, topic, partition) for topic, each in lags.items() for partition, lag in each.items()
    ]
    if len(listed) > MOST_LAGS:
        listed = sorted(listed)[:MOST_LAGS]
    kept: dict[str, dict[int, int]] = {}
    for below_zero, topic, partition in sorted(listed, key=lambda each: each[1:]):
        kept.setdefault(topic, {})[partition] = -below_zero
    return kept


def _rounded(lag: int) -> int:
    """Return a lag as 11 bits and how often they are shifted, rounded down."""
    lag = max(0, lag)
    shifts = min(_MOST_SHIFTS, max(0, lag.bit_length() - _MANTISSA_BITS))
    return shifts << _MANTISSA_BITS | min(lag >> shifts, (1 << _MANTISSA_BITS) - 1)


def _exact(number: int) -> int:
    return (number & (1 << _MANTISSA_BITS) - 1) << (number >> _MANTISSA_BITS)
