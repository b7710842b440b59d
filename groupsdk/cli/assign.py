"""`groupsdk assign`: what each assignor would make of a group that is live, described by a file, or typed."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from assignors.explanation import explain
from assignors.quality import Quality, measure
from assignors.registry import known_assignors, resolve
from groupsdk.admin.descriptions import ranges
from groupsdk.assignment import Assignment, Cluster, RebalanceProtocol, Subscription, TopicPartition
from groupsdk.assignment.plan import Plan
from groupsdk.cli.command import Command
from groupsdk.cli.connection import Connection, connection_options
from groupsdk.cli.output import json_option, write_json, write_table
from groupsdk.cli.process import log_level_option, put_on_path
from groupsdk.errors import ConfigError
from groupsdk.printable import printable_lines
from groupsdk.settings.properties import read_text


if TYPE_CHECKING:
    from groupsdk.admin.cluster import ClusterClient

_MOST_ROUNDS: Final = 3
_EXAMPLE_FILE: Final = '{"topics": {"orders": 6}, "members": {"a": {"topics": ["orders"], "owned": {"orders": [0, 1]}}}}'


@dataclass(frozen=True, slots=True)
class Situation:
    """A group before an assignment: topics, and members with their subscriptions and owned partitions."""

    cluster: Cluster
    subscriptions: Mapping[str, Subscription]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one assignor for a situation."""

    assignor: str
    plan: Plan
    quality: Quality
    milliseconds: float
    """The time spent in `assign`, summed over all rebalances."""
    rebalances: int
    """How many rebalances it takes; a cooperative assignor takes two if partitions move (KIP-429)."""


@click.command(
    cls=Command,
    examples=[
        ("groupsdk assign --topic orders:12 --members 5", "a group of five members"),
        (
            "groupsdk assign --topic orders:6 --member a:orders --member b:orders --owns a:orders:0-5",
            "a member that joins",
        ),
        (
            "groupsdk assign --group billing --bootstrap-servers localhost:9092",
            "what each assignor would do to a live group now",
        ),
        (
            "groupsdk assign --file group.json --assignor sticky --explain orders-3",
            "why a partition has its owner",
        ),
    ],
)
@click.option("--group", metavar="NAME", help="Use the members, topics and racks of a live group.")
@click.option("--file", "path", metavar="FILE", help="Read them from a JSON file.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME:COUNT",
    help="A topic and its number of partitions; repeatable.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="NAME[:TOPIC,...]",
    help="A member and its topics, by default all; repeatable.",
)
@click.option(
    "--members", "count", type=click.IntRange(1), help="Add N members that subscribe to all topics."
)
@click.option(
    "--owns",
    multiple=True,
    metavar="NAME:TOPIC:0-3,5",
    help="The partitions that a member owns already; repeatable.",
)
@click.option("--leave", "leaving", multiple=True, metavar="NAME", help="Remove this member first.")
@click.option("--join", "joining", multiple=True, metavar="NAME", help="Add one more member first.")
@click.option(
    "--assignor",
    "names",
    multiple=True,
    metavar="NAME|MODULE:CLASS",
    help="Run only this assignor: an installed one, or module:Class; repeatable.",
)
@click.option(
    "--explain",
    "explained",
    multiple=True,
    metavar="TOPIC-PARTITION|all",
    help="Explain why a partition has its owner; repeatable.",
)
@click.option("--plan", "shows_plan", is_flag=True, help="Also show the partitions of each member.")
@connection_options
@json_option
@log_level_option("warning")
def assign(
    names: tuple[str, ...],
    explained: tuple[str, ...],
    shows_plan: bool,
    connection: Connection,
    as_json: bool,
    **given: Any,
) -> None:
    """Show what each assignor would do: balance, moves, time, and why each partition is where it is.

    Nothing is changed. A file is JSON: {"topics": {NAME: COUNT}, "members": {NAME: {"topics": [...],
    "owned": {TOPIC: [...]}, "rack": ...}}}.
    """
    situation = _situation(given, connection)
    put_on_path()
    outcomes = [run_assignor(each, situation) for each in names or known_assignors()]
    wanted = _partitions(explained, situation)
    if as_json:
        write_json([_json(each, wanted) for each in outcomes])
        return
    rows = [_row(each) for each in outcomes]
    columns = (
        "ASSIGNOR",
        "MEMBERS",
        "PARTITIONS",
        "MOST",
        "LEAST",
        "FAIREST",
        "MOVES",
        "MS",
        "NOTE",
    )
    write_table(columns, rows)
    for each in outcomes:
        if shows_plan:
            shares = sorted(each.plan.assignment.items())
            write_table(
                ("MEMBER", "COUNT", "PARTITIONS"),
                [(name, len(share), ranges(tuple(share))) for name, share in shares],
                title=each.assignor,
            )
        for partition in wanted:
            click.echo(printable_lines(f"{each.assignor}: {explain(each.plan, partition)}\n"))


def run_assignor(name: str, situation: Situation) -> Outcome:
    """Run an assignor until it withholds no partition, and measure the result."""
    assignor = resolve(name)
    cooperative = RebalanceProtocol.COOPERATIVE in assignor.supported_protocols
    took, rounds = 0.0, 0
    small = typed_situation(["t:3"], ["a", "b"], None, ["a:t:0-2"])
    # not measured: the first call imports, and generates code
    resolve(name).assign(small.cluster, small.subscriptions)
    subscriptions = situation.subscriptions
    while True:
        rounds += 1
        asked = {
            member: replace(each, user_data=_user_data(name, each))
            for member, each in subscriptions.items()
        }
        begun = time.perf_counter()
        assignment = assignor.assign(situation.cluster, asked)
        took += (time.perf_counter() - begun) * 1000
        withheld = measure(Plan(situation.cluster, asked, assignment), may_withhold=True).withheld
        if not (cooperative and withheld) or rounds == _MOST_ROUNDS:
            break
        # what was withheld is given away when its owners have given it up and joined again (KIP-429)
        subscriptions = {
            member: replace(
                each, owned_partitions=assignment[member].partitions, generation_id=rounds + 1
            )
            for member, each in subscriptions.items()
        }
    plan = Plan(situation.cluster, situation.subscriptions, assignment)
    return Outcome(assignor.name, plan, measure(plan), took, rounds)


def _user_data(name: str, subscription: Subscription) -> bytes | None:
    """Return what a member would send to the leader: the classic sticky assignor tells there what it has."""
    own = resolve(name)
    if subscription.generation_id >= 0:
        own.on_assignment(Assignment(subscription.owned_partitions), subscription.generation_id)
    found = own.subscription_user_data(frozenset(subscription.topics))
    return found or subscription.user_data


def offered_assignors() -> list[str]:
    return list(known_assignors())


async def what_if(client: "ClusterClient", group_id: str, name: str) -> str:
    """Describe in a few lines what an assignor, by name or MODULE:CLASS, would do to a live group. Changes nothing.

    The assignor runs in a thread. Raises ConfigError if there is no such assignor, or the group has no members that read topics.
    """
    situation = await live_situation(client, group_id)
    outcome = await asyncio.to_thread(run_assignor, name, situation)
    quality = outcome.quality
    fairness = "the fairest possible" if quality.is_fairest else "not the fairest possible"
    moved = f"{quality.moves} of {quality.partitions} partitions would move"
    lines = [f"{moved}; members would have {quality.fewest} to {quality.most}, {fairness}."]
    if outcome.rebalances > 1:
        lines.append(
            f"It takes {outcome.rebalances} rebalances; partitions that stay are read without a pause."
        )
    lines += quality.problems[:2]
    return "\n".join(lines)


def read_situation(text: str, where: str) -> Situation:
    """Parse a situation from the JSON that `--file` takes."""
    try:
        data = json.loads(text)
        counts = {str(name): int(count) for name, count in data["topics"].items()}
        members = {
            str(name): Subscription(
                [str(topic) for topic in each.get("topics", list(counts))],
                owned_partitions={
                    str(topic): [int(number) for number in numbers]
                    for topic, numbers in each.get("owned", {}).items()
                },
                generation_id=1 if each.get("owned") else -1,
                rack_id=each.get("rack"),
                group_instance_id=each.get("instance"),
            )
            for name, each in data["members"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{where} is not of the form {_EXAMPLE_FILE}: {error!r}") from None
    return Situation(Cluster(counts), members)


async def live_situation(client: "ClusterClient", group_id: str) -> Situation:
    """Describe a live group as a situation, in which members own what is assigned to them."""
    from groupsdk.admin.groups import describe_group

    group = await describe_group(client, group_id)
    topics = sorted({topic for each in group.members for topic in each.subscription.topics})
    topics += sorted(
        {e.topic for m in group.members for e in m.assignment.partitions} - set(topics)
    )
    if not topics:
        raise ConfigError(
            f"group {group_id!r} has no members that read topics; it is {group.state}"
        )
    metadata = await client.metadata(topics)
    found = {name: topic for name, topic in metadata.topics.items() if not topic.error_code}
    racks = {
        name: [
            [
                metadata.brokers[node].rack or ""
                for node in topic.partitions[number].replicas
                if node in metadata.brokers
            ]
            for number in sorted(topic.partitions)
        ]
        for name, topic in found.items()
    }
    known = any(rack for lists in racks.values() for each in lists for rack in each)
    cluster = Cluster(
        {name: len(topic.partitions) for name, topic in found.items()}, racks if known else {}
    )
    subscriptions = {}
    for member in group.members:
        owned: dict[str, list[int]] = {}
        for each in member.assignment.partitions:
            owned.setdefault(each.topic, []).append(each.partition)
        subscriptions[member.member_id] = Subscription(
            list(member.subscription.topics or owned),
            owned_partitions=owned,
            generation_id=1 if owned else -1,
            rack_id=member.rack,
            group_instance_id=member.instance_id,
        )
    return Situation(cluster, subscriptions)


def typed_situation(
    topics: Sequence[str], members: Sequence[str], count: int | None, owns: Sequence[str]
) -> Situation:
    """Build a situation from the options --topic, --member, --members and --owns.

    A topic is "NAME:COUNT", a member "NAME" or "NAME:TOPIC,...": without topics it subscribes to all, as do `count` more, called
    member-1 and so on; what it owns is "NAME:TOPIC:0-3,5".
    """
    counts = {}
    for each in topics:
        name, colon, number = each.rpartition(":")
        if not (colon and name and number.isdecimal() and int(number)):
            raise ConfigError(f"--topic: {each!r} is not NAME:COUNT")
        counts[name] = int(number)
    owned: dict[str, dict[str, list[int]]] = {}
    for each in owns:
        parts = each.split(":")
        if len(parts) != 3:
            raise ConfigError(f"--owns: {each!r} is not NAME:TOPIC:0-3,5")
        owned.setdefault(parts[0], {})[parts[1]] = _numbers(parts[2], each)
    wanted = {f"member-{number}": list(counts) for number in range(1, (count or 0) + 1)}
    for each in members:
        name, _, listed = each.partition(":")
        wanted[name] = listed.split(",") if listed else list(counts)
    strangers = owned.keys() - wanted.keys()
    if strangers:
        raise ConfigError(f"--owns: there is no member {', '.join(sorted(strangers))}")
    return Situation(
        Cluster(counts),
        {
            name: Subscription(
                names,
                owned_partitions=owned.get(name, {}),
                generation_id=1 if name in owned else -1,
            )
            for name, names in wanted.items()
        },
    )


def _situation(given: Mapping[str, Any], connection: Connection) -> Situation:
    by_hand = bool(given["topics"])
    if sum((given["group"] is not None, given["path"] is not None, by_hand)) != 1:
        raise click.UsageError(
            "Give --group NAME, --file FILE, or --topic NAME:COUNT with --members N."
        )
    if given["group"] is not None:
        found = connection.run(lambda client: live_situation(client, given["group"]))
    elif given["path"] is not None:
        found = read_situation(read_text(given["path"], "--file"), given["path"])
    else:
        found = typed_situation(given["topics"], given["members"], given["count"], given["owns"])
    subscriptions = dict(found.subscriptions)
    for each in given["leaving"]:
        if subscriptions.pop(each, None) is None:
            raise ConfigError(
                f"--leave: there is no member {each!r}; the members are {', '.join(subscriptions)}"
            )
    for each in given["joining"]:
        subscriptions[each] = Subscription(list(found.cluster.partition_counts))
    if not subscriptions:
        raise ConfigError("there are no members: give --member NAME, --members N or --join NAME")
    return Situation(found.cluster, subscriptions)


def _numbers(text: str, where: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else True)):
            raise ConfigError(f"--owns: {where!r} is not NAME:TOPIC:0-3,5")
        found += range(int(first), int(last if dash else first) + 1)
    return found


def _partitions(names: Sequence[str], situation: Situation) -> list[TopicPartition]:
    counts = situation.cluster.partition_counts
    if "all" in names:
        return [
            TopicPartition(name, each) for name, count in counts.items() for each in range(count)
        ]
    found = []
    for each in names:
        topic, dash, number = each.rpartition("-")
        if not (dash and number.isdecimal()):
            raise ConfigError(
                f"--explain: {each!r} is not TOPIC-PARTITION, such as orders-3, or all"
            )
        found.append(TopicPartition(topic, int(number)))
    return found


def _row(outcome: Outcome) -> tuple[Any, ...]:
    quality = outcome.quality
    note = "; ".join(quality.problems[:2])
    if not note and outcome.rebalances > 1:
        note = (
            f"takes {outcome.rebalances} rebalances; partitions that stay are read without a pause"
        )
    return (
        outcome.assignor,
        len(outcome.plan.subscriptions),
        quality.partitions,
        quality.most,
        quality.fewest,
        "yes" if quality.is_fairest else "no",
        quality.moves,
        round(outcome.milliseconds, 2),
        note,
    )


def _json(outcome: Outcome, wanted: Sequence[TopicPartition]) -> dict[str, Any]:
    return {
        "assignor": outcome.assignor,
        "milliseconds": outcome.milliseconds,
        "rebalances": outcome.rebalances,
        "quality": outcome.quality,
        "assignment": {name: share.partitions for name, share in outcome.plan.assignment.items()},
        "explanations": [explain(outcome.plan, each) for each in wanted],
    }
