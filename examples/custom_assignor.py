"""Write an assignor of your own, hold it to the contract, and try it beside the shipped ones.

    python examples/custom_assignor.py [picture.svg]

It needs no Kafka. The assignor gives each tenant's topics ("tenant.topic") to one member, so that a member
keeps few tenants' caches warm; the price is balance, and the table shows how much of it.
"""

import argparse
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from assignors import Plan, check_assignor, explain, simulate
from assignors.workbench import Event, Join, Leave
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    RebalanceProtocol,
    Subscription,
)


class TenantAssignor:
    """Keep the topics of one tenant together: all to the subscriber that has least so far."""

    name = "tenant"
    version = 0
    supported_protocols = frozenset({RebalanceProtocol.EAGER})

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Tell the leader nothing."""
        return None

    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Share out, as the leader."""
        shares: dict[str, dict[str, range]] = {member_id: {} for member_id in subscriptions}
        loads = Counter(dict.fromkeys(subscriptions, 0))
        home: dict[tuple[str, tuple[str, ...]], str] = {}
        # sorted, so that no order of mappings makes a difference: every leader finds the same plan
        for topic, count in sorted(cluster.partition_counts.items()):
            wanted = tuple(sorted(m for m, each in subscriptions.items() if topic in each.topics))
            if wanted and count:
                tenant = topic.partition(".")[0], wanted
                member_id = home.setdefault(tenant, min(wanted, key=lambda m: (loads[m], m)))
                shares[member_id][topic] = range(count)
                loads[member_id] += count
        return {member_id: Assignment(share) for member_id, share in shares.items()}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Note nothing."""


def main(picture: Path | None) -> None:
    """Check it, compare it, and say why one partition is where it is."""
    groups = check_assignor(TenantAssignor)
    print(f"The contract holds on {groups} groups.\n")

    topics = {f"{tenant}.{topic}": 6 for tenant in "abcdefgh" for topic in ("clicks", "orders")}
    members = [f"worker-{number}" for number in range(4)]
    events: list[Event] = [Leave("worker-1"), Join("worker-9")]
    simulation = simulate(members, topics, events, [TenantAssignor, "range", "sticky"])
    print(simulation)
    if picture is not None:
        picture.write_text(simulation.svg(), encoding="utf-8")

    cluster = Cluster({"a.clicks": 2, "b.clicks": 2, "b.orders": 2})
    everything = Subscription(tuple(cluster.partition_counts))
    subscriptions = {"left": everything, "right": everything}
    plan = Plan(cluster, subscriptions, TenantAssignor().assign(cluster, subscriptions))
    print(f"\n{explain(plan, ('b.orders', 0))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("picture", nargs="?", type=Path, help="default: none")
    main(parser.parse_args().picture)
