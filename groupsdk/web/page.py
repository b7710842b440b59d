"""The state of the live page, built by polling a cluster."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.watching import (
    ClusterView,
    Rebalance,
    WatchedGroup,
    is_done,
    waiting_view,
    watch_cluster,
)
from groupsdk.clock import WallClock
from groupsdk.errors import BrokerError, ConfigError, DecodeError, NetworkError
from groupsdk.verdict import GroupVerdict, KnownLog, VerdictKeeper
from groupsdk.verdict.log_follower import NOT_READ, LogFollower
from groupsdk.web.connect_tasks import FollowedGroup, ShownTask, TaskHistory, tasks_json
from groupsdk.web.group_view import group_view
from groupsdk.web.memory import STEP_MS, GroupMemory, PageMemory
from groupsdk.web.overview import Said, group_row, lag_of, matching, said_of
from groupsdk.web.sections import Encoded, Section, Sections, encoded
from groupsdk.wire.connect_protocol import CONNECT_PROTOCOL_TYPE


_NOTHING: Final = Encoded({}, {})
_MAX_TASKS: Final = 2_000
"""So many connectors and tasks of a group are shown."""

T = TypeVar("T")

WhatIf = Callable[[ClusterClient, str, str], Awaitable[str]]
"""Describes an assignor's result for a group, given the cluster, the group and the assignor's name."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known since one look at the cluster, ready to be sent."""

    groups: Mapping[str, WatchedGroup] = field(default_factory=dict)
    verdicts: Mapping[str, GroupVerdict] = field(default_factory=dict)
    tasks: Mapping[str, list[ShownTask]] = field(default_factory=dict)
    rows: Encoded = _NOTHING
    lags: Encoded = _NOTHING
    rebalancing: Mapping[str, Rebalance] = field(default_factory=dict)
    """The rebalances that go on, by group."""


class PageState:
    """Turns the views of a cluster into what pages show. Thread-safe: its methods take long for many groups, and are
    called on threads beside the server's loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory = PageMemory()
        self._keeper = VerdictKeeper()
        self._history = TaskHistory()
        self._said: dict[str, Said] = {}
        self._look = _Look()
        self._details: dict[str, dict[str, Encoded]] = {}

    @property
    def began_ms(self) -> int | None:
        """When the first look was, in milliseconds since 1970; None before it."""
        return self._memory.began_ms

    @property
    def verdicts(self) -> Mapping[str, GroupVerdict]:
        """The verdict over each group at the latest look, by group id."""
        return self._look.verdicts

    def take(
        self,
        view: ClusterView,
        tasks: Mapping[str, list[ShownTask]],
        known: KnownLog = NOT_READ,
    ) -> None:
        """Take the next look at the cluster, with the tasks of each group of Connect workers, and what the groups' log tells."""
        with self._lock:
            groups = {each.description.group_id: each for each in view.groups}
            lags = {group_id: lag_of(each) for group_id, each in groups.items()}
            self._memory.note(view, lags)
            for group_id, found in tasks.items():
                self._history.observe(view.at_ms, group_id, found)
            verdicts = self._keeper.observe(view, known=known)
            said = {key: said_of(each, self._said.get(key)) for key, each in verdicts.items()}
            self._said = said
            rows = {
                key: group_row(
                    each,
                    lags[key],
                    verdicts[key],
                    said[key],
                    self._memory.groups[key].rebalances_of_last_hour(),
                    tasks.get(key, ()),
                )
                for key, each in groups.items()
            }
            self._look = _Look(
                groups,
                verdicts,
                tasks,
                encoded(rows, self._look.rows),
                encoded({key: lag for key, lag in lags.items() if lag is not None}),
                {each.group_id: each for each in view.rebalances if each.ended_ms is None},
            )

    def overview(self) -> Sections:
        """Return the sections of all groups."""
        look = self._look
        return {"groups": look.rows.texts, "lags": look.lags.texts}

    def row(self, group_id: str) -> Sections:
        """Return the sections of all groups with one group alone."""
        return {name: _only(group_id, section) for name, section in self.overview().items()}

    def trends(self, group_id: str | None = None) -> Section:
        """Return the lag of each group, or of one, over the last minutes."""
        with self._lock:
            lags = self._memory.lags()
        return encoded(lags if group_id is None else _only(group_id, lags)).texts

    def detail(self, group_id: str) -> Sections:
        """Return the sections of a group's page; they are empty if there is no such group."""
        with self._lock:
            before = self._details.get(group_id, {})
            sections = {
                name: encoded(entries, before.get(name))
                for name, entries in self._detail(group_id).items()
            }
            # a few pages look at the same few groups
            self._details.pop(group_id, None)
            self._details[group_id] = sections
            while len(self._details) > 50:
                del self._details[next(iter(self._details))]
            return {name: section.texts for name, section in sections.items()}

    def _detail(self, group_id: str) -> dict[str, Mapping[str, Any]]:
        look, memory = self._look, self._memory.groups.get(group_id) or GroupMemory()
        watched = look.groups.get(group_id)
        if watched is None:
            names = ("group", "members", "member_lags", "topics", "rebalances", "tasks", "changes")
            return {name: {} for name in names}
        going_on = look.rebalancing.get(group_id)
        rebalances = [*memory.rebalances, *([going_on] if going_on is not None else [])]
        view = group_view(watched, look.verdicts.get(group_id), tuple(memory.states), rebalances)
        tasks = look.tasks.get(group_id, ())[:_MAX_TASKS]
        changes = (each for each in self._history.events if each["group_id"] == group_id)
        return {
            "group": view.facts,
            "members": view.members,
            "member_lags": view.lags,
            "topics": view.topics,
            "rebalances": view.rebalances,
            "tasks": {each["name"]: each for each in tasks_json(tasks, self._history)},
            "changes": {f"{each['at_ms']} {each['text']}": each for each in changes},
        }

    def find(self, words: Sequence[str]) -> list[str]:
        """Return the groups in which each of the lower-case words occurs, in a name of any kind."""
        return matching(self._look.groups, list(words))


class StateVersions:
    """Numbers the states of a page, and lets callers wait for the next. Belongs to one event loop."""

    def __init__(self) -> None:
        self._version = 0
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """Change the state in this block, then wake the waiting callers."""
        async with self._changed:
            yield
            self._version += 1
            self._changed.notify_all()

    async def wait(self, version: int, timeout_s: float) -> int:
        """Wait until the state is newer than a version. Return the latest version."""
        async with self._changed:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait_for(lambda: self._version > max(version, 0))
            except TimeoutError:
                pass
            return self._version if self._version > 0 else version


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
        reads_log: bool = True,
    ) -> None:
        self._settings = dict(settings)
        self._patterns = patterns
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._what_if = what_if
        self._assignors = tuple(assignors)
        self._clock = WallClock()
        self._log = LogFollower(settings, patterns, timeout_s=timeout_s) if reads_log else None
        self._brokers = 0
        self._cluster_id: str | None = None
        self._connect: dict[str, FollowedGroup] = {}
        self._state = PageState()
        self._client: ClusterClient | None = None
        self._view = ClusterView(0, error="nothing was seen of the cluster yet")
        self._versions = StateVersions()

    @property
    def view(self) -> ClusterView:
        """The latest view. May be read on any thread."""
        return self._view

    @property
    def verdicts(self) -> Mapping[str, GroupVerdict]:
        """The verdict over each group at the latest look, by group id. May be read on any thread."""
        return self._state.verdicts

    @property
    def known_log(self) -> KnownLog:
        """What has been read of the groups' log so far. May be read on any thread."""
        return NOT_READ if self._log is None else self._log.known

    async def follow(self) -> None:
        """Poll the cluster until cancelled; errors are shown on the page."""
        async with contextlib.nullcontext() if self._log is None else self._log.beside():
            await self._poll()

    async def _poll(self) -> None:
        while True:
            try:
                async with ClusterClient(self._settings, timeout_s=self._timeout_s) as client:
                    await self._follow(client)
            except (BrokerError, OSError) as error:
                await self._show(replace(self._view, error=str(error), asking_since_ms=None))
            finally:
                self._client = None
            await asyncio.sleep(self._interval_s)

    async def _follow(self, client: ClusterClient) -> None:
        self._client = client
        views = watch_cluster(
            client,
            self._patterns,
            interval_s=self._interval_s,
            clock=self._clock,
            with_waits=True,
        )
        async with contextlib.aclosing(views):
            async for view in views:
                if view.seen_ms == view.at_ms:
                    await self._take(client, view)
                else:
                    # a client that is new has not seen what the one before saw
                    known = view.seen_ms is not None or self._view.seen_ms is None
                    await self._show(view if known else _with_groups(view, self._view))

    async def _take(self, client: ClusterClient, view: ClusterView) -> None:
        """Take a look at the cluster, and show it once the tasks of Connect's groups have been read, too."""
        reading = asyncio.ensure_future(self._read_tasks(client, view))
        try:
            while not await is_done(reading):
                waits = waiting_view(self._view, self._clock.now_ms(), client)
                if waits is not None:
                    await self._show(waits)
            tasks = reading.result()
        finally:
            reading.cancel()
        self._cluster_id = client.cluster_id
        self._brokers = len(await client.brokers())
        await asyncio.to_thread(self._state.take, view, tasks, self.known_log)
        await self._show(view)

    async def _read_tasks(
        self, client: ClusterClient, view: ClusterView
    ) -> dict[str, list[ShownTask]]:
        """Read the connectors and tasks of the groups of Connect workers."""
        groups = {
            each.description.group_id: each.description
            for each in view.groups
            if each.description.protocol_type == CONNECT_PROTOCOL_TYPE
        }
        self._connect = {name: self._connect.get(name) or FollowedGroup(name) for name in groups}
        tasks = {}
        for name, followed in self._connect.items():
            # without permission to read the topic, the page shows the owners from the group's protocol
            with contextlib.suppress(BrokerError, NetworkError, DecodeError):
                await followed.read(client)
            tasks[name] = followed.tasks(groups[name])
        return tasks

    async def _show(self, view: ClusterView) -> None:
        async with self._versions.next():
            self._view = view

    async def wait(self, version: int, timeout_s: float) -> int:
        """Wait until the state is newer than a version. Return the latest version."""
        return await self._versions.wait(version, timeout_s)

    async def sections(self, group_id: str | None, *, first: bool) -> Sections:
        """Return what the page shows now of all groups, and of one; `first` with what is sent only once."""
        view = self._view
        found = {"about": self._about(), "look": self._looked(view)}
        if first:
            found["trends"] = await asyncio.to_thread(self._state.trends, group_id)
        if group_id is None:
            return {**found, **self._state.overview()}
        detail = await asyncio.to_thread(self._state.detail, group_id)
        return {**found, **self._state.row(group_id), **detail}

    def _about(self) -> Section:
        about = {
            "cluster_id": self._cluster_id,
            "brokers": self._brokers,
            "groups": len(self._view.groups),
            "assignors": self._assignors,
            "began_ms": self._state.began_ms,
            "interval_ms": round(self._interval_s * 1000),
            "step_ms": STEP_MS,
            "log": self.known_log.text,
        }
        return encoded(about).texts

    def _looked(self, view: ClusterView) -> Section:
        looked = {
            "seen_ms": view.seen_ms,
            "now_ms": self._clock.now_ms(),
            "asking_since_ms": view.asking_since_ms,
            "waiting_for": view.waiting_for,
            "problem": view.error,
        }
        return encoded(looked).texts

    async def find(self, words: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._state.find, words)

    async def what_if(self, group_id: str, assignor: str) -> str:
        """Return a description of what an assignor would do to the current group. Raises GroupSdkError if there is none."""
        if self._client is None:
            raise ConfigError("the cluster cannot be reached at present")
        if self._what_if is None or assignor not in self._assignors:
            raise ConfigError(f"there is no assignor {assignor!r}")
        return await self._what_if(self._client, group_id, assignor)


def _only(key: str, entries: Mapping[str, T]) -> Mapping[str, T]:
    return {key: entries[key]} if key in entries else {}


def _with_groups(view: ClusterView, before: ClusterView) -> ClusterView:
    return replace(view, groups=before.groups, seen_ms=before.seen_ms, ended=before.ended)
