"""Observations of groups that are well: no rule may find anything in them."""

from collections.abc import Callable
from dataclasses import replace

from groupsdk.admin.descriptions import Assignment, GroupType, Subscription
from groupsdk.assignment import TopicPartition
from groupsdk.verdict import Observation, Past, judge
from tests.support.cases import each_case
from tests.support.observed_groups import (
    HOUR_MS,
    NOW_MS,
    group,
    in_turn,
    member,
    samples,
    seen,
    stay,
)


def deployment() -> Observation:
    """Eight members are replaced one after the other; the last one is not back yet."""
    old = [stay(f"orders-{n}", 3_000, 60 - 5 * n) for n in range(8)]
    new = [stay(f"orders-{n}", 58 - 5 * n, None, reason="") for n in range(7)]
    left = group(*(member(f"orders-{n}", [n]) for n in range(7)))
    return seen(
        left,
        dict.fromkeys(range(7), 40),
        past=in_turn([*old, *new]),
        partitions={"orders": 8},
        settled_ms=NOW_MS - 4_000,
        state_ms=NOW_MS - 4_000,
    )


def between_stop_and_start() -> Observation:
    """All members were stopped for a deployment."""
    stopped = in_turn([stay(f"orders-{n}", 3_000, 20) for n in range(3)], others=0)
    return seen(group(), {0: 900, 1: 1_200}, past=stopped, empty_ms=NOW_MS - 20_000)


def autoscaler() -> Observation:
    """Pods came as lag grew, and go as it is worked off."""
    pods = [stay(f"orders-7f9c{n}d-x{n}kq", 1_500 - 300 * n, 300 - 60 * n) for n in range(4)]
    lags = [0, *range(0, 8_000, 800), 4_000, 1_000, 10]
    return seen(
        group(member("orders-7f9c0d-zzkq", [0, 1, 2, 3])),
        {0: 10},
        past=in_turn(pods),
        samples=samples(lags),
        settled_ms=NOW_MS - 60_000,
    )


def job_at_night() -> Observation:
    """A batch group is empty by day, as it was yesterday; records wait for the night."""
    yesterday = (NOW_MS - 38 * HOUR_MS, NOW_MS - 20 * HOUR_MS)
    return seen(
        group(),
        {0: 250_000, 1: 240_000},
        past=Past(since_ms=NOW_MS - 48 * HOUR_MS, absences=(yesterday,)),
        empty_ms=NOW_MS - 14 * HOUR_MS,
    )


def static_restart() -> Observation:
    """A static member was restarted twice, and kept its place."""
    one = [
        stay("a", 3_000, 1_200, instance_id="i-1", reason="static_replaced"),
        stay("a", 1_200, 30, instance_id="i-1", reason="static_replaced"),
        stay("a", 30, None, instance_id="i-1", reason=""),
    ]
    members = member("a", [0, 1], instance_id="i-1"), member("b", [2, 3], instance_id="i-2")
    return seen(group(*members), {0: 5, 2: 0}, past=in_turn(one))


def just_created() -> Observation:
    """The first member has joined and committed nothing yet."""
    first = in_turn([stay("a", 2, None, reason="")], others=0)
    return seen(
        group(member("a", [0, 1, 2]), member("b")),
        None,
        past=first,
        partitions={"orders": 3},
        settled_ms=NOW_MS - 2_000,
        state_ms=NOW_MS - 2_000,
    )


def cooperative_rebalance() -> Observation:
    """The first of two rebalances is over: partitions were given up, and nobody has them yet."""
    joined = in_turn([stay("c", 1, None, reason="")])
    return seen(
        group(
            member("a", [0, 1]),
            member("b", [2, 3]),
            member("c", []),
            assignor="cooperative-sticky",
        ),
        {0: 3, 4: 12},
        past=joined,
        partitions={"orders": 6},
        settled_ms=NOW_MS - 1_000,
        state_ms=NOW_MS - 1_000,
    )


def low_traffic() -> Observation:
    """A few records a minute, each read within seconds."""
    return seen(
        group(member("a", [0]), member("b", [1])),
        {0: 3, 1: 1},
        samples=samples(range(12), read_each=3),
        partitions={"orders": 2},
    )


def consumer_protocol() -> Observation:
    """A group of KIP-848 that moves one partition to a new member."""
    target = Assignment((TopicPartition("orders", 2),))
    return seen(
        group(
            member("a", [0, 1, 2], protocol=GroupType.CONSUMER, target=Assignment()),
            member("b", [], protocol=GroupType.CONSUMER, target=target),
            type=GroupType.CONSUMER,
            state="Reconciling",
            assignor="uniform",
        ),
        {0: 4, 1: 0, 2: 9},
        partitions={"orders": 3},
        settled_ms=NOW_MS - 3_000,
        state_ms=NOW_MS - 3_000,
    )


def connect_workers() -> Observation:
    """Kafka Connect: connectors and tasks, no partitions and no offsets."""
    workers = [
        replace(
            member(name),
            subscription=Subscription(url=f"http://{name}:8083"),
            assignment=Assignment(tasks=tasks),
        )
        for name, tasks in {"w1": ("sink-0", "sink-1", "sink-2"), "w2": ()}.items()
    ]
    return seen(group(*workers, protocol_type="connect", assignor="sessioned"), None)


def shard_workers() -> Observation:
    """Shards with weights: uneven in number by intent."""
    shards = {"s1": {f"shard-{n}": n for n in range(6)}, "s2": {"shard-6": 1}}
    workers = [
        replace(member(name), subscription=Subscription(), assignment=Assignment(shards=owned))
        for name, owned in shards.items()
    ]
    return seen(group(*workers, protocol_type="work", assignor="shards"), None)


def consumer_without_membership() -> Observation:
    """It assigns itself, and commits while the group is empty."""
    return seen(group(protocol_type=""), {0: 700}, empty_ms=NOW_MS - 5_000)


@each_case(
    "healthy",
    [
        deployment,
        between_stop_and_start,
        autoscaler,
        job_at_night,
        static_restart,
        just_created,
        cooperative_rebalance,
        low_traffic,
        consumer_protocol,
        connect_workers,
        shard_workers,
        consumer_without_membership,
    ],
)
def test_a_group_that_is_well_is_silent(healthy: Callable[[], Observation]) -> None:
    assert judge(healthy()).findings == ()
