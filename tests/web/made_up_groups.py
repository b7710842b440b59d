"""Groups that no broker has, for pages in a browser: large, hostile, of every type, silent."""

import asyncio
from dataclasses import replace
from typing import Final

from typing_extensions import override

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.admin.watching import ClusterView, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.clock import WallClock
from groupsdk.web.page import ClusterPage


HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "'\"><svg onload=alert(3)>",
    "javascript:alert(4)",
    "</bdi></td><b>bold</b>",
    "__proto__",
    "constructor",
    "\u202egpj.exe",
    "a&b=c#d?e%20f",
    "\x1b[31mred\x07",
    "..",
    "123",
)


def group_of(
    name: str, *, members: int, client_id: str = "", topic: str = "t", lag: int = 0
) -> WatchedGroup:
    """A stable group of consumers, each with a partition."""
    own = [TopicPartition(topic, number) for number in range(members)]
    found = tuple(
        Member(
            f"member-{name}-{each.partition}",
            client_id or f"client-{name}-{each.partition}",
            "/10.0.0.1",
            subscription=Subscription((topic,)),
            assignment=Assignment((each,)),
        )
        for each in own
    )
    described = GroupDescription(name, GroupType.CLASSIC, "Stable", "consumer", "range", 1, found)
    lags = tuple(
        PartitionLag(topic, each.partition, 5, 5 + lag, member.member_id)
        for each, member in zip(own, found, strict=True)
    )
    return WatchedGroup(described, 0, lags)


def empty_with_lag(name: str) -> WatchedGroup:
    """A group whose records wait, and that has no members."""
    described = GroupDescription(name, GroupType.CLASSIC, "Empty", "consumer", "", 1)
    return WatchedGroup(described, 0, (PartitionLag("t", 0, 0, 5_000),))


def big_group() -> WatchedGroup:
    """A group of the consumer protocol with 667 partitions, which moves a quarter of them."""
    partitions = tuple(TopicPartition("big", number) for number in range(667))
    a = Member(
        "a",
        "worker-a",
        "/10.0.0.1",
        protocol=GroupType.CONSUMER,
        epoch=3,
        assignment=Assignment(partitions),
        target=Assignment(partitions[:500]),
    )
    b = Member(
        "b",
        "worker-b",
        "/10.0.0.2",
        instance_id="b-1",
        protocol=GroupType.CONSUMER,
        epoch=3,
        target=Assignment(partitions[500:]),
    )
    described = GroupDescription(
        "big-one", GroupType.CONSUMER, "Reconciling", "consumer", "uniform", 1, (a, b), 4, 4
    )
    lags = tuple(PartitionLag("big", number, 0, 20, "a") for number in range(667))
    return WatchedGroup(described, 0, lags)


def names() -> list[WatchedGroup]:
    """A group of each kind but Connect's."""
    modern = replace(big_group().description, group_id="modern")
    shared = Assignment((TopicPartition("t", 0), TopicPartition("t", 1)))
    sharing = tuple(
        Member(f"s-{n}", f"s{n}", "/h", protocol=GroupType.SHARE, epoch=2, assignment=shared)
        for n in range(2)
    )
    streams = Member(
        "m",
        "app",
        "/h",
        protocol=GroupType.STREAMS,
        epoch=2,
        assignment=Assignment(tasks=("0_0", "0_1"), standbys=("0_2",)),
    )
    workers = tuple(
        Member(
            f"w-{n}",
            f"w{n}",
            "/h",
            rack=f"zone-{n}",
            subscription=Subscription(url=f"http://w{n}:1/", zone=f"zone-{n}", draining=n == 1),
            assignment=Assignment(
                shards={f"shard-{each}": 3 for each in range(80 * n, 80 * n + 80)},
                standbys=(f"shard-{80 * (1 - n)}",),
            ),
        )
        for n in range(2)
    )
    return [
        WatchedGroup(each, 0)
        for each in (
            modern,
            GroupDescription(
                "sharing", GroupType.SHARE, "Stable", "share", "simple", 1, sharing, 2, 2
            ),
            GroupDescription(
                "app", GroupType.STREAMS, "Stable", "streams", "", 1, (streams,), 2, 2
            ),
            GroupDescription("tenants", GroupType.CLASSIC, "Stable", "work", "shards", 1, workers),
        )
    ]


_WATCHED_MS = 120_000


class MadeUpPage(ClusterPage):
    """A page of given groups, which are looked at again and again."""

    def __init__(self, groups: list[WatchedGroup]) -> None:
        super().__init__({"bootstrap.servers": "nowhere:1"}, assignors=["range"])
        self._groups = tuple(sorted(groups, key=lambda each: each.description.group_id))
        self._silent: str | None = None

    def fall_silent(self, why: str) -> None:
        """Answer no look from now on."""
        self._silent = why

    def answer(self) -> None:
        self._silent = None

    @override
    async def follow(self) -> None:
        # as if it had been looked at for a while: what is found does not wait for a deployment to be over
        before_ms = WallClock().now_ms() - _WATCHED_MS
        view = ClusterView(before_ms, self._groups, seen_ms=before_ms)
        await asyncio.to_thread(self._state.take, view, {})
        while True:
            now_ms = WallClock().now_ms()
            if self._silent is None:
                view = ClusterView(now_ms, self._groups, seen_ms=now_ms)
                await asyncio.to_thread(self._state.take, view, {})
                await self._show(view)
            elif self.view.asking_since_ms is None:
                why = self._silent
                await self._show(replace(self.view, asking_since_ms=now_ms, waiting_for=why))
            await asyncio.sleep(0.2)
