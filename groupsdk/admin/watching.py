"""Watch the groups of a cluster by polling, and derive rebalances from the changes.

`GroupTracker` is pure: descriptions and a time go in, rebalances come out. `watch_cluster` polls a cluster for it.
Neither depends on the display: a terminal and a web page show the same `ClusterView`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import (
    REBALANCING,
    GroupDescription,
    Member,
    PartitionLag,
    matches,
)
from groupsdk.admin.groups import list_groups
from groupsdk.admin.many_groups import describe_listed, lags_of
from groupsdk.clock import Clock, WallClock
from groupsdk.errors import BrokerError, NetworkError
from groupsdk.wire.messages.metadata import MetadataRequest


_KEPT: Final = 200
_DEAD: Final = "Dead"
_UNUSUAL_S: Final = 0.5
"""A request without an answer for that long is worth telling."""
_LOOKS_AGAIN_S: Final = 0.1
_PROBE_S: Final = 0.25
"""The time between two small requests that notice silence while no poll is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a rebalance, as far as it is visible from outside."""

    kind: str
    """ "joined", "left", "restarted" (a static member with a new id), "subscribed" (other topics), "epoch" or
    "unknown"."""
    member_id: str = ""
    client_id: str = ""
    host: str = ""
    detail: str = ""

    @property
    def text(self) -> str:
        who = f"{self.client_id or self.member_id} ({self.member_id}) at {self.host}"
        match self.kind:
            case "joined" | "left" | "restarted":
                return f"{who} {self.kind}"
            case "subscribed":
                return f"{who} subscribed to {self.detail}"
            case _:
                return self.detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A rebalance of a group, as observed by polling."""

    group_id: str
    began_ms: int
    """Milliseconds since 1970, as are all times here: when it was first seen."""
    ended_ms: int | None = None
    """None while in progress."""
    epoch: int | None = None
    """Of a group of the consumer protocol, the epoch that it led to."""
    causes: tuple[Cause, ...] = ()
    moved: int = 0
    """How many partitions, connectors and tasks have another owner than before."""
    members: int = 0
    """How many members the group had at the end, or has now."""
    phases: tuple[tuple[str, int], ...] = ()
    """The states that it went through, each with the time at which it was first seen."""

    @property
    def length_ms(self) -> int | None:
        """The duration in milliseconds; 0 if it began and ended between two polls; None while in progress."""
        return None if self.ended_ms is None else self.ended_ms - self.began_ms


@dataclass(frozen=True, slots=True)
class WatchedGroup:
    description: GroupDescription
    since_ms: int
    """Since when it is in its state, as far as it was watched."""
    lag: tuple[PartitionLag, ...] = ()

    @property
    def total_lag(self) -> int:
        """The number of offsets that its members still have to read."""
        return sum(each.lag or 0 for each in self.lag)

    @property
    def member_lags(self) -> Mapping[str, int]:
        """The lag of each member that has partitions, by member id."""
        lags: dict[str, int] = {}
        for each in self.lag:
            if each.member_id is not None:
                lags[each.member_id] = lags.get(each.member_id, 0) + (each.lag or 0)
        return lags


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A snapshot of a cluster's groups, with the rebalances observed so far."""

    at_ms: int
    groups: tuple[WatchedGroup, ...] = ()
    """By name."""
    rebalances: tuple[Rebalance, ...] = ()
    """The newest first; those that go on have no end."""
    error: str | None = None
    """Why the cluster could not be polled; the groups are those of the previous poll."""
    ended: Mapping[str, int] = field(default_factory=dict)
    """How many rebalances of each group have ended since it was first seen."""
    just_ended: tuple[Rebalance, ...] = ()
    """The rebalances that ended since the previous poll."""
    seen_ms: int | None = None
    """When the groups were seen as they are here; None if never."""
    asking_since_ms: int | None = None
    """Since when a poll in progress has no answer, if that is unusually long: the groups are those of the previous poll."""
    waiting_for: str = ""
    """Why the poll in progress has no answer, as far as that is known."""


@dataclass(slots=True)
class _Track:
    last: GroupDescription
    settled: GroupDescription
    """The group when it last had no rebalance in progress."""
    since_ms: int
    open: Rebalance | None = None
    causes: dict[tuple[str, str], Cause] = field(default_factory=dict)


class GroupTracker:
    """Tracks groups from poll to poll, and derives their rebalances and their causes. Pure."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._done: deque[Rebalance] = deque(maxlen=_KEPT)
        self._ended: dict[str, int] = {}
        self._looked = False

    @property
    def ended(self) -> Mapping[str, int]:
        """The number of rebalances of each group that ended since it was first observed."""
        return dict(self._ended)

    @property
    def rebalances(self) -> tuple[Rebalance, ...]:
        """The rebalances: those in progress first, then the newest."""
        open_ones = [track.open for track in self._tracks.values() if track.open is not None]
        open_ones.sort(key=lambda each: -each.began_ms)
        return (*open_ones, *reversed(self._done))

    def since_ms(self, group_id: str) -> int:
        return self._tracks[group_id].since_ms

    def observe(self, now_ms: int, groups: Iterable[GroupDescription]) -> list[Rebalance]:
        """Process the current state of all groups; return the rebalances that ended since the last poll."""
        ended = []
        seen = set()
        for group in groups:
            seen.add(group.group_id)
            self._ended.setdefault(group.group_id, 0)
            done = self._observe(now_ms, group)
            if done is not None:
                ended.append(done)
                self._ended[group.group_id] += 1
        for group_id in self._tracks.keys() - seen:
            del self._tracks[group_id], self._ended[group_id]
        self._done.extend(ended)
        self._looked = True
        return ended

    def _observe(self, now_ms: int, group: GroupDescription) -> Rebalance | None:
        track = self._tracks.get(group.group_id)
        if track is None:
            # at the first poll, it is unknown how long the state has lasted
            empty = replace(group, state="Empty", members=(), epoch=None)
            known = empty if self._looked else group
            track = self._tracks[group.group_id] = _Track(known, known, now_ms)
        busy = group.state in REBALANCING
        if track.open is None and not busy and group == track.last == track.settled:
            return None
        before = track.last
        for cause in _causes(before, group):
            track.causes.setdefault((cause.kind, cause.member_id), cause)
        if group.state != before.state:
            track.since_ms = now_ms
        track.last = group
        if track.open is None and (busy or track.causes or _moved(track.settled, group)):
            track.open = Rebalance(group_id=group.group_id, began_ms=now_ms)
        if track.open is None:
            track.settled = group
            return None
        if not track.open.phases or track.open.phases[-1][0] != group.state:
            phases = (*track.open.phases, (group.state, now_ms))
            track.open = replace(track.open, phases=phases)
        track.open = replace(
            track.open, causes=tuple(track.causes.values()), members=len(group.members)
        )
        if busy:
            return None
        causes = track.open.causes or (
            Cause(
                kind="unknown",
                detail="nobody came or left: a member joined again, or partitions were added",
            ),
        )
        done = replace(
            track.open,
            ended_ms=now_ms,
            epoch=group.epoch,
            causes=causes,
            moved=_moved(track.settled, group),
        )
        track.open, track.settled = None, group
        track.causes = {}
        return done


def _causes(before: GroupDescription, after: GroupDescription) -> list[Cause]:
    """Return the changes of the members between two polls."""
    old = {each.member_id: each for each in before.members}
    new = {each.member_id: each for each in after.members}
    instances = {each.instance_id for each in before.members if each.instance_id}
    coming = {each.instance_id for each in after.members if each.instance_id}
    found = []
    for member_id in new.keys() - old.keys():
        member = new[member_id]
        kind = "restarted" if member.instance_id in instances else "joined"
        found.append(_cause(kind, member))
    for member_id in old.keys() - new.keys():
        member = old[member_id]
        if not member.instance_id or member.instance_id not in coming:
            found.append(_cause("left", member))
    for member_id in old.keys() & new.keys():
        was, now = old[member_id].subscription.topics, new[member_id].subscription.topics
        # the coordinator reports no subscriptions during a rebalance
        if was and now and set(was) != set(now):
            cause = _cause("subscribed", new[member_id])
            found.append(replace(cause, detail=", ".join(sorted(now))))
    if not found and None not in (before.epoch, after.epoch) and before.epoch != after.epoch:
        detail = f"the group went from epoch {before.epoch} to {after.epoch}"
        found.append(Cause(kind="epoch", detail=detail))
    return sorted(found, key=lambda each: (each.kind, each.member_id))


def _cause(kind: str, member: Member) -> Cause:
    return Cause(
        kind=kind, member_id=member.member_id, client_id=member.client_id, host=member.host
    )


def _moved(before: GroupDescription, after: GroupDescription) -> int:
    """Count the parts with a new owner; gaining a first owner or losing the last one is not a move."""
    owners = {
        part: member.member_id for member in before.members for part in member.assignment.parts
    }
    return sum(
        owners.get(part, member.member_id) != member.member_id
        for member in after.members
        for part in member.assignment.parts
    )


async def look(
    client: ClusterClient, patterns: Collection[str] = (), *, with_lag: bool = True
) -> tuple[list[GroupDescription], Mapping[str, tuple[PartitionLag, ...]]]:
    """Describe the current groups of a cluster, or those that match a shell-style pattern, with the lags by group id.

    Groups of a type that the brokers cannot describe are returned without members.
    """
    listed = [each for each in await list_groups(client) if matches(each.group_id, patterns)]
    described = await describe_listed(client, listed)
    found = sorted(
        (each for each in described if each.state != _DEAD), key=lambda each: each.group_id
    )
    return found, await lags_of(client, found) if with_lag else {}


async def watch_cluster(
    client: ClusterClient,
    patterns: Collection[str] = (),
    *,
    interval_s: float = 1.0,
    with_lag: bool = True,
    clock: Clock | None = None,
    with_waits: bool = False,
) -> AsyncGenerator[ClusterView, None]:
    """Poll the groups of a cluster forever; yield a view each time.

    While the cluster cannot be polled, the views give the reason and the groups of the last poll. The pause between two polls
    is never shorter than a poll took, so that watching a large cluster does not keep it busy. With `with_waits`, views come in
    between as soon as the cluster has been silent for half a second, and four small requests a second notice this in a pause.

    Raises:
        BrokerError: access to the groups is denied; not retried.
    """
    clock = clock or WallClock()
    tracker = GroupTracker()
    view = ClusterView(clock.now_ms())
    while True:
        began_s = asyncio.get_running_loop().time()
        looking = asyncio.ensure_future(look(client, patterns, with_lag=with_lag))
        try:
            while not await is_done(looking):
                waits = waiting_view(view, clock.now_ms(), client) if with_waits else None
                if waits is not None:
                    view = waits
                    yield view
            found, lags = looking.result()
        except (NetworkError, BrokerError) as raised:
            if not raised.retriable:
                raise
            view = replace(
                view,
                at_ms=clock.now_ms(),
                rebalances=tracker.rebalances,
                error=str(raised),
                just_ended=(),
                asking_since_ms=None,
            )
        else:
            view = _seen(clock.now_ms(), tracker, found, lags)
        finally:
            looking.cancel()
        yield view
        pause_s = max(interval_s, asyncio.get_running_loop().time() - began_s)
        if not with_waits:
            await asyncio.sleep(pause_s)
            continue
        probing = asyncio.ensure_future(_probe_for(client, pause_s))
        try:
            while not await is_done(probing):
                waits = waiting_view(view, clock.now_ms(), client)
                if waits is not None:
                    view = waits
                    yield view
        finally:
            probing.cancel()


async def _probe_for(client: ClusterClient, pause_s: float) -> None:
    """Ask the brokers again and again until a pause is over; whether they answer is for `client.waiting` to tell."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            while True:
                await asyncio.sleep(_PROBE_S)
                with contextlib.suppress(NetworkError, BrokerError):
                    await client.ask_all(MetadataRequest((), allow_auto_topic_creation=False))


async def is_done(looking: "asyncio.Future[Any]") -> bool:
    """Wait for a poll; return False if it is not done when its waits are to be looked at again."""
    done, _ = await asyncio.wait({looking}, timeout=_LOOKS_AGAIN_S)
    return bool(done)


def _seen(
    now_ms: int,
    tracker: GroupTracker,
    found: Sequence[GroupDescription],
    lags: Mapping[str, tuple[PartitionLag, ...]],
) -> ClusterView:
    just_ended = tracker.observe(now_ms, found)
    groups = tuple(
        WatchedGroup(each, tracker.since_ms(each.group_id), lags.get(each.group_id, ()))
        for each in found
    )
    return ClusterView(
        at_ms=now_ms,
        groups=groups,
        rebalances=tracker.rebalances,
        ended=tracker.ended,
        just_ended=tuple(just_ended),
        seen_ms=now_ms,
    )


def waiting_view(view: ClusterView, now_ms: int, client: ClusterClient) -> ClusterView | None:
    """Return the view of a poll that is waiting unusually long; None if it is not, or if `view` already says so."""
    waiting = client.waiting
    if waiting is None or waiting.for_s < _UNUSUAL_S:
        return None
    since_ms = now_ms - round(waiting.for_s * 1000)
    if view.asking_since_ms is not None:
        since_ms = min(since_ms, view.asking_since_ms)
    waits = replace(
        view,
        at_ms=now_ms,
        just_ended=(),
        asking_since_ms=since_ms,
        waiting_for="" if waiting.error is None else str(waiting.error),
    )
    known = (view.asking_since_ms, view.waiting_for)
    return None if known == (waits.asking_since_ms, waits.waiting_for) else waits
