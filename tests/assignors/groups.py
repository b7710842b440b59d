"""Write groups and plans down briefly, as the tables of Kafka's rules do."""

from collections.abc import Iterable, Mapping

from groupsdk.assignment import Assignment, Cluster, GroupAssignment, Subscription


def cluster(**counts: int) -> Cluster:
    """Name topics with their numbers of partitions."""
    return Cluster(counts)


def racks(**topics: str) -> Cluster:
    """Name topics with the rack of each partition's one replica: `t="cab"`; several as `t="ab bc"`."""
    replica_racks = {
        topic: [tuple(each) for each in (text.split() if " " in text else text)]
        for topic, text in topics.items()
    }
    return Cluster({topic: len(each) for topic, each in replica_racks.items()}, replica_racks)


def subscribed(
    members: Mapping[str, str] | str,
    topics: str = "",
    rack: Mapping[str, str] | None = None,
    instance: Mapping[str, str] | None = None,
) -> dict[str, Subscription]:
    """Name members with their topics: `{"C0": "t0 t1"}`, or several with the same: `"C0 C1", "t0 t1"`."""
    if isinstance(members, str):
        members = dict.fromkeys(members.split(), topics)
    return {
        member_id: Subscription(
            tuple(names.split()),
            rack_id=(rack or {}).get(member_id),
            group_instance_id=(instance or {}).get(member_id),
        )
        for member_id, names in members.items()
    }


def written(plan: GroupAssignment) -> dict[str, str]:
    """Write what each member got, in order: `{"C0": "t0-0 t0-2"}`."""
    return {
        member_id: " ".join(f"{topic}-{partition}" for topic, partition in share)
        for member_id, share in plan.items()
    }


def flat(plan: Mapping[str, Assignment]) -> list[tuple[str, int]]:
    """List all partitions of a plan, sorted."""
    return sorted(_all(plan.values()))


def _all(shares: Iterable[Assignment]) -> Iterable[tuple[str, int]]:
    for share in shares:
        yield from share
