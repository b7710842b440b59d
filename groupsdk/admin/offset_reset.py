"""Plan an offset reset: the scenarios of kafka-consumer-groups --reset-offsets (KIP-122)."""

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from groupsdk.admin.cluster import EARLIEST, LATEST, ClusterClient
from groupsdk.admin.groups import committed_offsets
from groupsdk.assignment import TopicPartition
from groupsdk.errors import ConfigError


_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_SHORT: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
_OFFSET: Final = re.compile(r"[0-9]{1,18}")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WORDS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


class Scenario(StrEnum):
    """The reset target, named as the command's options."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    """The committed offset, or the end of the log if nothing is committed."""
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    DATETIME = "to-datetime"
    """The first record at or after a time, or the end of the log if there is none."""
    FILE = "from-file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    scenario: Scenario
    number: int = 0
    """The offset, the distance of a shift, or the time in milliseconds since 1970."""
    offsets: Mapping[TopicPartition, int] | None = None
    """The offset of each partition, for a reset from a file."""


@dataclass(frozen=True, slots=True)
class Reset:
    topic: str
    partition: int
    current: int | None
    """The committed offset; None for none."""
    new: int
    start: int
    end: int
    note: str = ""
    """Why the offset differs from the requested one."""


async def plan_reset(
    client: ClusterClient, group_id: str, partitions: Collection[TopicPartition], target: Target
) -> list[Reset]:
    """Compute the new offset of each partition, without changing anything.

    An offset outside of the log becomes its start or end, as in Kafka's tool. Raises ConfigError if a partition without a
    committed offset is to be shifted.
    """
    committed = await committed_offsets(client, group_id)
    starts = await client.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await client.list_offsets(dict.fromkeys(partitions, LATEST))
    found: Mapping[TopicPartition, int] = {}
    if target.scenario is Scenario.DATETIME:
        found = await client.list_offsets(dict.fromkeys(partitions, target.number))
    plan = []
    for each in sorted(partitions):
        current = committed[each].offset if each in committed else None
        wanted = _wanted(target, each, current, (starts[each], ends[each]), found)
        new = min(max(wanted, starts[each]), ends[each])
        note = ""
        if new != wanted:
            note = f"{wanted} is outside of the log, {starts[each]} to {ends[each]}"
        plan.append(Reset(each.topic, each.partition, current, new, starts[each], ends[each], note))
    return plan


def _wanted(
    target: Target,
    partition: TopicPartition,
    current: int | None,
    span: tuple[int, int],
    found: Mapping[TopicPartition, int],
) -> int:
    match target.scenario:
        case Scenario.EARLIEST:
            return span[0]
        case Scenario.LATEST:
            return span[1]
        case Scenario.CURRENT:
            return span[1] if current is None else current
        case Scenario.OFFSET:
            return target.number
        case Scenario.SHIFT:
            if current is None:
                raise ConfigError(
                    f"--shift-by: nothing is committed for {partition.topic}-{partition.partition}"
                )
            return current + target.number
        case Scenario.DATETIME:
            return found[partition] if found[partition] >= 0 else span[1]
        case Scenario.FILE:
            assert target.offsets is not None
            return target.offsets[partition]


def parse_datetime(text: str) -> int:
    """Return an ISO 8601 time, in UTC if it names no zone, in milliseconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--to-datetime must be a time such as 2026-01-31T12:00:00.000 or with a zone +02:00, not {text!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Return an ISO 8601 duration in milliseconds."""
    short = _SHORT.fullmatch(text)
    if short is not None:
        return round(float(short["number"]) * _UNIT_MS[short["unit"]])
    long = _DURATION.fullmatch(text)
    if long is None or not any(long.groupdict().values()):
        raise ConfigError(f"--by-duration must be a duration such as PT1H30M or 90m, not {text!r}")
    return round(sum(float(long[name] or 0) * ms for name, ms in _WORDS_MS.items()))


def read_offsets(text: str, where: str, group_id: str) -> dict[TopicPartition, int]:
    """Parse lines of "topic,partition,offset" or "group,topic,partition,offset", as Kafka's tool exports them."""
    found = {}
    for number, words in enumerate(_rows(text, where), 1):
        if not words:
            continue
        if len(words) == 4 and words[0] != group_id:
            continue
        *_, topic, partition, offset = words if len(words) in (3, 4) else ["", "", ""]
        if not (topic and _PARTITION.fullmatch(partition) and _OFFSET.fullmatch(offset)):
            raise ConfigError(
                f"{where}, line {number}: must be topic,partition,offset or group,topic,partition,offset"
            )
        found[TopicPartition(topic, int(partition))] = int(offset)
    if not found:
        raise ConfigError(f"{where} has no offsets for group {group_id!r}")
    return found


def _rows(text: str, where: str) -> Iterator[list[str]]:
    # a carriage return alone ends a line, too: `csv` wants its caller to have split them
    rows = csv.reader(io.StringIO(text, newline=None))
    try:
        yield from rows
    except csv.Error as error:
        raise ConfigError(f"{where}, line {rows.line_num}: {error}") from None


def write_offsets(plan: Collection[Reset]) -> str:
    """Write a plan in the form that `read_offsets` and Kafka's tool read."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((each.topic, each.partition, each.new) for each in plan)
    return text.getvalue()
