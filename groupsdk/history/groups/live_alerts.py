"""Alerts of one live group: each generation, and storms as they begin and end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from groupsdk.errors import DecodeError
from groupsdk.history.groups.causes import Cause, compare
from groupsdk.history.groups.classic import is_cooperative, members_of
from groupsdk.history.groups.member import Member
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


GENERATION: Final = "generation"
STORM: Final = "storm"
STORM_OVER: Final = "storm_over"
REJECT: Final = "reject"
_MAX_RECENT: Final = 1_000


class Alert(NamedTuple):
    """An event of a group; `members` is how many there are after it."""

    kind: str
    """"generation", "storm" as one begins, "storm_over", or "reject" for a record that cannot be decoded."""
    generation: int
    ts_ms: int
    cause: str
    """The cause of a generation, derived from its members alone: "leave" stands for leave or expiry, which only
    commits distinguish."""
    joined: int
    gone: int
    members: int
    rebalances: int
    """How many rebalances there were within the storm's window."""
    offset: int


@dataclass(frozen=True, slots=True)
class AlertState:
    """The state of one group between two records, stored as text in Spark's state.

    `generation`, `offset` and `members` are those of the last record, -1 and empty before the first. `storming`: whether the
    group is in a storm.
    """

    generation: int = -1
    offset: int = -1
    members: tuple[Member, ...] = ()
    recent_ms: tuple[int, ...] = ()
    """The times at which the last rebalances within a storm's window began."""
    storming: bool = False

    def to_text(self) -> str:
        """Return it as JSON, with the fields of members that tell two generations apart."""
        members = [
            [m.member_id, m.instance_id, m.client_id, m.client_host, list(m.topics)]
            for m in self.members
        ]
        return json.dumps(
            [self.generation, self.offset, members, list(self.recent_ms), self.storming],
            separators=(",", ":"),
        )

    @classmethod
    def from_text(cls, text: str) -> "AlertState":
        """Parse the text of `to_text`."""
        generation, offset, members, recent, storming = json.loads(text)
        return cls(
            generation,
            offset,
            tuple(
                Member(member_id, instance, client, host, -1, -1, tuple(topics))
                for member_id, instance, client, host, topics in members
            ),
            tuple(recent),
            storming,
        )


def next_alerts(
    state: AlertState,
    offset: int,
    ts_ms: int,
    key: bytes,
    value: bytes | None,
    *,
    storm_generations: int,
    storm_window_ms: int,
) -> tuple[AlertState, list[Alert]]:
    """Process the next record of a classic group. Return the new state and the alerts.

    A record that was already processed, as after a restart, changes nothing.

    Args:
        state: the state after the group's previous record.
        offset: the offset of the record.
        ts_ms: its timestamp, in milliseconds since 1970.
        key: its key.
        value: its value; None for a tombstone.
        storm_generations: this many rebalances within the window are a storm.
        storm_window_ms: the window, in milliseconds.
    """
    if offset <= state.offset:
        return state, []
    try:
        found: Any = read_value(_of_group(key), value)
    except DecodeError as error:
        alert = Alert(REJECT, state.generation, ts_ms, str(error), 0, 0, 0, 0, offset)
        return replace(state, offset=offset), [alert]
    if found is None:
        return AlertState(offset=offset), []
    return _next(state, offset, ts_ms, found, storm_generations, storm_window_ms)


def _of_group(key: bytes) -> CoordinatorKey:
    found = read_key(key)
    if not isinstance(found, GroupMetadataKey):
        raise DecodeError("the record is not one of a classic group")
    return found


def _next(
    state: AlertState, offset: int, ts_ms: int, value: GroupMetadataValue, many: int, window_ms: int
) -> tuple[AlertState, list[Alert]]:
    members = tuple(members_of(value))
    if value.generation == state.generation:
        # the same generation again: a returning static member took over its assignment without a rebalance
        return replace(state, offset=offset, members=members), []
    changes = compare(
        {each.member_id: each for each in state.members},
        {each.member_id: each for each in members},
        cooperative=is_cooperative(value.protocol_type, value.protocol),
    )
    if changes.causes:
        cause = changes.causes[0]
    else:
        cause = Cause.LEAVE if changes.departed else Cause.UNKNOWN
    recent = tuple(each for each in (*state.recent_ms, ts_ms) if ts_ms - each <= window_ms)
    recent = recent[-_MAX_RECENT:]
    alerts = [
        Alert(
            GENERATION,
            value.generation,
            ts_ms,
            str(cause),
            len(changes.joined),
            len(changes.gone),
            len(members),
            len(recent),
            offset,
        )
    ]
    storming = len(recent) >= many
    if storming and not state.storming:
        alerts.append(alerts[0]._replace(kind=STORM))
    if state.storming and not storming:
        alerts.append(alerts[0]._replace(kind=STORM_OVER))
    return AlertState(value.generation, offset, members, recent, storming), alerts


def end_quiet_storm(state: AlertState, now_ms: int) -> tuple[AlertState, Iterator[Alert]]:
    """End the storm in `state`, if any, after a whole window without a rebalance. Return the new state and the alerts."""
    if not state.storming:
        return state, iter(())
    alert = Alert(
        STORM_OVER, state.generation, now_ms, "", 0, 0, len(state.members), 0, state.offset
    )
    return replace(state, storming=False, recent_ms=()), iter((alert,))
