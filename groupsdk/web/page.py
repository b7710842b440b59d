"""The state of the live page, built by polling a cluster."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import Assignment, Member
from groupsdk.admin.watching import ClusterView, Rebalance, WatchedGroup, watch_cluster
from groupsdk.errors import BrokerError, ConfigError, DecodeError, NetworkError
from groupsdk.web.connect_tasks import (
    FollowedGroup,
    ShownTask,
    TaskHistory,
    merged_events,
    tasks_json,
)
from groupsdk.web.server import StateVersions
from groupsdk.wire.connect_protocol import CONNECT_PROTOCOL_TYPE


_KEPT_MS: Final = 15 * 60_000
_MAX_STATES: Final = 500
"""The number of state changes kept per group."""
_MAX_PARTS: Final = 1_000
"""The number of partitions shown per member."""

States = Sequence[tuple[int, str]]
WhatIf = Callable[[ClusterClient, str, str], Awaitable[str]]
"""Describes an assignor's result for a group, given the cluster, the group and the assignor's name."""


def page_state(
    view: ClusterView,
    states: Mapping[str, States],
    about: Mapping[str, Any],
    tasks: Iterable[ShownTask] = (),
    history: TaskHistory | None = None,
) -> dict[str, Any]:
    """Return the state of the page as JSON values.

    `states` are those that each group went through, with the times at which they were first seen; `about` has the `cluster_id`, the
    number of `brokers` and the names of `assignors`.
    """
    history = history or TaskHistory()
    rebalances = [_event(each) for each in reversed(view.rebalances)]
    return {
        **about,
        "at_ms": view.at_ms,
        "problem": view.error,
        "groups": [_group(each, states.get(each.description.group_id, ())) for each in view.groups],
        "events": merged_events(rebalances, history.events),
        "tasks": tasks_json(tasks, history),
        "worker": None,
    }


def _group(group: WatchedGroup, states: States) -> dict[str, Any]:
    described = group.description
    has_lag = bool(group.lag)
    by_member: dict[str | None, int] = {}
    for each in group.lag:
        by_member[each.member_id] = by_member.get(each.member_id, 0) + (each.lag or 0)
    return {
        "group_id": described.group_id,
        "type": described.type.value,
        "state": described.state,
        "protocol_type": described.protocol_type,
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "epoch": described.epoch,
        "lag": group.total_lag if has_lag else None,
        "states": [list(each) for each in states],
        "members": [_member(each, by_member.get(each.member_id)) for each in described.members],
    }


def _member(member: Member, lag: int | None) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "rack": member.rack,
        "protocol": member.protocol.value,
        "epoch": member.epoch,
        "load": f"{member.load:.4g}" if member.subscription.loads else None,
        "parts": _parts(member.assignment),
        "target": None if member.target is None else _parts(member.target),
        "lag": lag,
    }


def _parts(assignment: Assignment) -> list[str]:
    if not assignment.parts:
        return [assignment.text] if assignment.text else []
    parts = [str(each) for each in assignment.parts[: _MAX_PARTS + 1]]
    if len(parts) > _MAX_PARTS:
        parts[_MAX_PARTS:] = [f"and {len(assignment.parts) - _MAX_PARTS} more"]
    return parts


def _event(rebalance: Rebalance) -> dict[str, Any]:
    causes = "; ".join(each.text for each in rebalance.causes)
    if rebalance.ended_ms is None:
        text = f"rebalancing: {causes}" if causes else "rebalancing"
    else:
        moved = "1 moved" if rebalance.moved == 1 else f"{rebalance.moved} moved"
        text = f"rebalanced, {moved}, {rebalance.members} members: {causes}"
    return {
        "group_id": rebalance.group_id,
        "at_ms": rebalance.began_ms,
        "text": text,
        "phases": _phases(rebalance),
    }


def _phases(rebalance: Rebalance) -> list[tuple[str, int]]:
    """Return each state of a rebalance with its observed duration in milliseconds."""
    if rebalance.ended_ms is None:
        return []
    ends = [*(at_ms for _, at_ms in rebalance.phases[1:]), rebalance.ended_ms]
    spans = zip(rebalance.phases, ends, strict=False)
    return [(name, end_ms - at_ms) for (name, at_ms), end_ms in spans if end_ms > at_ms]


class ClusterPage:
    """Tracks the groups of a cluster that match shell patterns, for the live page. Belongs to the server's event loop."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        patterns: Collection[str] = (),
        *,
        interval_s: float = 1.0,
        assignors: Sequence[str] = (),
        what_if: WhatIf | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        self._settings = dict(settings)
        self._patterns = patterns
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._what_if = what_if
        self._about: dict[str, Any] = {
            "cluster_id": None,
            "brokers": 0,
            "assignors": list(assignors),
        }
        self._states: dict[str, deque[tuple[int, str]]] = {}
        self._connect: dict[str, FollowedGroup] = {}
        self._tasks: list[ShownTask] = []
        self._history = TaskHistory()
        self._client: ClusterClient | None = None
        self._view = ClusterView(0, error="nothing was seen of the cluster yet")
        self._versions = StateVersions()

    @property
    def view(self) -> ClusterView:
        """The latest view. May be read on any thread."""
        return self._view

    async def follow(self) -> None:
        """Poll the cluster until cancelled; errors are shown on the page."""
        while True:
            try:
                async with ClusterClient(self._settings, timeout_s=self._timeout_s) as client:
                    await self._follow(client)
            except (BrokerError, OSError) as error:
                await self._show(replace(self._view, rebalances=(), error=str(error)))
            finally:
                self._client = None
            await asyncio.sleep(self._interval_s)

    async def _follow(self, client: ClusterClient) -> None:
        self._client = client
        views = watch_cluster(client, self._patterns, interval_s=self._interval_s)
        async for view in views:
            if view.error is None:
                metadata = await client.metadata()
                self._about |= {
                    "cluster_id": metadata.cluster_id,
                    "brokers": len(metadata.brokers),
                }
                await self._read_tasks(client, view)
            self._note_states(view)
            await self._show(view)

    async def _read_tasks(self, client: ClusterClient, view: ClusterView) -> None:
        """Read the connectors and tasks of the groups of Connect workers."""
        groups = {
            each.description.group_id: each.description
            for each in view.groups
            if each.description.protocol_type == CONNECT_PROTOCOL_TYPE
        }
        self._connect = {name: self._connect.get(name) or FollowedGroup(name) for name in groups}
        tasks = []
        for name, followed in self._connect.items():
            # without permission to read the topic, the page shows the owners from the group's protocol
            with contextlib.suppress(BrokerError, NetworkError, DecodeError):
                await followed.read(client)
            found = followed.tasks(groups[name])
            self._history.observe(view.at_ms, name, found)
            tasks += found
        self._tasks = tasks

    def _note_states(self, view: ClusterView) -> None:
        seen = set()
        for group in view.groups:
            described = group.description
            seen.add(described.group_id)
            states = self._states.setdefault(described.group_id, deque(maxlen=_MAX_STATES))
            if not states or states[-1][1] != described.state:
                states.append((view.at_ms, described.state))
            while len(states) > 1 and states[1][0] < view.at_ms - _KEPT_MS:
                states.popleft()
        for gone in self._states.keys() - seen:
            del self._states[gone]

    async def _show(self, view: ClusterView) -> None:
        async with self._versions.next():
            self._view = view

    async def wait(self, version: int, timeout_s: float) -> int:
        return await self._versions.wait(version, timeout_s)

    def state(self) -> dict[str, Any]:
        states = {name: tuple(each) for name, each in self._states.items()}
        return page_state(self._view, states, self._about, self._tasks, self._history)

    async def what_if(self, group_id: str, assignor: str) -> str:
        if self._client is None:
            raise ConfigError("the cluster cannot be reached at present")
        if self._what_if is None or assignor not in self._about["assignors"]:
            raise ConfigError(f"there is no assignor {assignor!r}")
        return await self._what_if(self._client, group_id, assignor)
