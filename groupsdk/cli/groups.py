"""`groupsdk groups`: look at the groups of a cluster and change them."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from groupsdk.admin.descriptions import (
    GROUP_STATES,
    GROUP_TYPES,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupType,
    Member,
    PartitionLag,
    is_pattern,
    matches,
)
from groupsdk.assignment import TopicPartition
from groupsdk.cli.command import CommandGroup, ExitCode, complain, exit_with
from groupsdk.cli.connection import Connection, connection_options
from groupsdk.cli.output import cell, json_option, plain, write_json, write_table
from groupsdk.cli.process import log_level_option
from groupsdk.clock import WallClock
from groupsdk.error_code import ErrorCode, describe
from groupsdk.errors import BrokerError, ConfigError
from groupsdk.settings.properties import read_text


if TYPE_CHECKING:
    from groupsdk.admin.cluster import ClusterClient
    from groupsdk.admin.offset_reset import Reset, Target

F = TypeVar("F", bound=Callable[..., Any])

_GONE: Final = "Dead"
_DESCRIBED: Final = (GroupType.CLASSIC, GroupType.CONSUMER)
_COMMITTING: Final = (*_DESCRIBED, GroupType.STREAMS)
"""The types of groups that commit offsets."""
_GROUP: Final = "--bootstrap-servers localhost:9092"


@click.group(cls=CommandGroup)
def groups() -> None:
    """Inspect and change the groups of a cluster: those of consumers, of Connect, and of other protocols."""


def _common(function: F) -> F:
    return connection_options(json_option(log_level_option("warning")(function)))


def _examples(name: str, *rows: tuple[str, str]) -> list[tuple[str, str]]:
    return [
        (f"groupsdk groups {name} {words} {_GROUP}".replace("  ", " "), text)
        for words, text in rows
    ]


def _one_of(name: str, known: Sequence[str], text: str) -> Callable[[F], F]:
    kind = click.Choice(known, case_sensitive=False)
    more: Any = {"type": kind, "multiple": True, "metavar": name.upper()}
    return click.option(f"--{name}", f"{name}s", help=text, **more)


def _of_groups(function: F) -> F:
    """Add the groups that a command is about."""
    every = click.option("--all", "--all-groups", "everything", is_flag=True, help="Every group.")
    named = click.argument("group_ids", nargs=-1, metavar="[GROUP]...")
    return named(every(function))


@groups.command(
    "list",
    examples=_examples(
        "list",
        ("", "all groups"),
        ("--state Empty --type classic", "classic groups without members"),
        ("'orders-*'", "groups whose id begins with orders-"),
    ),
)
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@_one_of("state", GROUP_STATES, "Only groups in this state; repeatable.")
@_one_of("type", GROUP_TYPES, "Only groups of this type; repeatable.")
@_common
def list_command(
    patterns: tuple[str, ...],
    states: tuple[str, ...],
    types: tuple[str, ...],
    connection: Connection,
    as_json: bool,
) -> None:
    """List groups: type, state, protocol and coordinator."""
    from groupsdk.admin.groups import list_groups

    found = [
        each
        for each in connection.run(list_groups)
        if matches(each.group_id, patterns)
        and (not states or each.state in states)
        and (not types or each.type in types)
    ]
    if as_json:
        write_json(found)
        return
    write_table(
        ("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR"),
        [(e.group_id, e.type, e.state, e.protocol_type, e.coordinator) for e in found],
        left_out=("COORDINATOR", "PROTOCOL"),
    )


@groups.command(
    "describe",
    examples=_examples(
        "describe", ("orders", "state, members and lag of one group"), ("--all", "of every group")
    ),
)
@_of_groups
@_common
def describe_command(
    group_ids: tuple[str, ...],
    everything: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Describe groups: state, members with their assignments, and lag."""

    found = connection.run(lambda client: _with_lag(client, group_ids, everything=everything))
    if as_json:
        write_json([{**plain(group), "lag": _lag_json(lag)} for group, lag in found])
        return
    for number, (group, lag) in enumerate(found):
        if number:
            click.echo()
        _write_state(group)
        if group.members:
            click.echo()
            _write_members(group)
        if lag:
            click.echo()
            _write_lag(group.group_id, lag)


@groups.command(
    "members",
    examples=_examples("members", ("orders", "the members of the group and their assignments")),
)
@_of_groups
@_common
def members_command(
    group_ids: tuple[str, ...],
    everything: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Show the members of groups with their decoded assignments."""
    found = connection.run(lambda client: _describe(client, group_ids, everything=everything))
    if as_json:
        write_json([{"group_id": each.group_id, "members": plain(each.members)} for each in found])
        return
    for group in found:
        _write_members(group)


@groups.command(
    "offsets",
    examples=_examples(
        "offsets",
        ("orders", "the committed offsets of the group"),
        ("'orders-*'", "of all groups whose id begins with orders-"),
    ),
)
@_of_groups
@_common
def offsets_command(
    group_ids: tuple[str, ...],
    everything: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Show what groups have committed, with leader epoch and metadata."""
    from groupsdk.admin.groups import committed_offsets

    async def gather(
        client: "ClusterClient",
    ) -> "list[tuple[str, dict[TopicPartition, CommittedOffset]]]":
        chosen = await _choose(client, group_ids, _COMMITTING, everything=everything)
        committed = [(each, await committed_offsets(client, each)) for each in chosen]
        # a group that has committed nothing yet has no offsets, one that is not there is an error
        silent = [each for each, offsets in committed if not offsets]
        if silent and not everything:
            await _describe(client, silent)
        return committed

    found = [
        (group, *part, at.offset, at.leader_epoch, at.metadata)
        for group, committed in connection.run(gather)
        for part, at in sorted(committed.items())
    ]
    if as_json:
        names = ("group_id", "topic", "partition", "offset", "leader_epoch", "metadata")
        write_json([dict(zip(names, row, strict=True)) for row in found])
        return
    write_table(("GROUP", "TOPIC", "PARTITION", "OFFSET", "LEADER EPOCH", "METADATA"), found)


@groups.command(
    "lag",
    examples=_examples(
        "lag",
        ("orders", "the lag of each partition"),
        ("--all --total", "who lags, the furthest behind first"),
    ),
)
@_of_groups
@click.option(
    "--total",
    is_flag=True,
    help="One line for each group instead of each partition, the furthest behind first.",
)
@_common
def lag_command(
    group_ids: tuple[str, ...],
    everything: bool,
    total: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Show how far groups are behind the end of each partition."""
    described = connection.run(lambda client: _with_lag(client, group_ids, everything=everything))
    found = [(group.group_id, lag) for group, lag in described]
    if as_json:
        write_json(
            [
                {"group_id": group, "total": _total(lag), "partitions": _lag_json(lag)}
                for group, lag in found
            ]
        )
    elif total:
        write_table(
            ("GROUP", "PARTITIONS", "LAG"),
            sorted(
                ((group, len(lag), _total(lag)) for group, lag in found),
                key=lambda row: (-row[2], row[0]),
            ),
        )
    else:
        for group, lag in found:
            _write_lag(group, lag)


@groups.command(
    "reset",
    examples=_examples(
        "reset",
        ("orders --all-topics --to-earliest", "show what would change"),
        ("orders --topic sales:0,1 --shift-by -10 --execute", "read ten records again"),
        ("orders --all-topics --by-duration 90m --execute", "go back an hour and a half"),
    ),
)
@click.argument("group_id", metavar="GROUP")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME[:0,1]", help="A topic, or some partitions."
)
@click.option("--all-topics", is_flag=True, help="All topics with committed offsets.")
@click.option("--to-earliest", is_flag=True, help="To the start of the log.")
@click.option("--to-latest", is_flag=True, help="To the end of the log.")
@click.option("--to-current", is_flag=True, help="To the committed offsets.")
@click.option("--to-offset", type=click.IntRange(0), help="To this offset.")
@click.option(
    "--shift-by", type=int, metavar="N", help="Forward by N offsets; backward if N is negative."
)
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record at or after this time (UTC)."
)
@click.option("--by-duration", metavar="DURATION", help="To this long before now: PT1H30M or 90m.")
@click.option(
    "--from-file", metavar="FILE", help="To the offsets of a CSV file: topic,partition,offset."
)
@click.option("--export", metavar="FILE", help="Write the plan to such a file.")
@click.option(
    "--execute/--dry-run", default=False, help="Commit the offsets; by default, only show them."
)
@_common
def reset_command(
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    export: str | None,
    execute: bool,
    connection: Connection,
    as_json: bool,
    **scenario: Any,
) -> None:
    """Move the committed offsets of a group without members. Shows the plan, and with --execute commits it."""
    target = _target(group_id, scenario)
    if target.offsets is None and not topics and not all_topics:
        raise click.UsageError("Give --topic NAME, once or more, or --all-topics.")

    group, plan = connection.run(
        lambda client: _reset(
            client, group_id, target, topics, all_topics=all_topics, execute=execute
        )
    )
    if export is not None:
        from groupsdk.admin.offset_reset import write_offsets

        Path(export).write_text(write_offsets(plan), encoding="utf-8")
    _write_reset(group, plan, execute=execute, as_json=as_json)


@groups.command(
    "remove",
    examples=_examples(
        "remove",
        ("orders --member consumer-1-4f2a", "one member"),
        ("orders --instance worker-3", "a static member that will not come back"),
    ),
)
@click.argument("group_id", metavar="GROUP")
@click.option("--member", "member_ids", multiple=True, help="A member id; repeatable.")
@click.option("--instance", "instances", multiple=True, help="A group.instance.id; repeatable.")
@click.option("--all", "everybody", is_flag=True, help="Every member.")
@click.option("--reason", default="removed by an administrator", help="Shown in the broker's log.")
@_common
def remove_command(
    group_id: str,
    member_ids: tuple[str, ...],
    instances: tuple[str, ...],
    everybody: bool,
    reason: str,
    connection: Connection,
    as_json: bool,
) -> None:
    """Remove members from a group. Clients that are still running join again."""
    if not (member_ids or instances or everybody):
        raise click.UsageError("Give --member ID, --instance ID or --all.")

    async def work(client: "ClusterClient") -> dict[str, int]:
        from groupsdk.admin.groups import describe_group, remove_members

        group = await describe_group(client, group_id)
        if group.state == _GONE:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}")
        chosen = group.members if everybody else _chosen(group, member_ids, instances)
        return await remove_members(client, group_id, chosen, reason) if chosen else {}

    _write_codes(connection.run(work), "MEMBER", as_json=as_json)


@groups.command(
    "delete",
    examples=_examples(
        "delete",
        ("old-group", "a group without members, with its offsets"),
        ("orders --topic sales", "only its committed offsets of a topic"),
    ),
)
@click.argument("group_ids", nargs=-1, required=True, metavar="GROUP...")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:0,1]",
    help="Delete only the offsets of this topic, not the group; repeatable.",
)
@_common
def delete_command(
    group_ids: tuple[str, ...],
    topics: tuple[str, ...],
    connection: Connection,
    as_json: bool,
) -> None:
    """Delete groups without members, or offsets of topics that no member subscribes to."""

    async def delete_all(client: "ClusterClient") -> dict[str, int]:
        from groupsdk.admin.groups import delete_group

        codes = {}
        for each in group_ids:
            try:
                await delete_group(client, each)
                codes[each] = 0
            except BrokerError as error:
                codes[each] = error.code
        return codes

    async def forget(client: "ClusterClient") -> dict[str, int]:
        from groupsdk.admin.groups import delete_offsets

        partitions = await _partitions(client, topics)
        codes = {}
        for group_id in group_ids:
            for part, code in (await delete_offsets(client, group_id, partitions)).items():
                codes[f"{group_id} {part.topic}-{part.partition}"] = code
        return codes

    found = connection.run(forget if topics else delete_all)
    _write_codes(found, "OFFSET" if topics else "GROUP", as_json=as_json)


async def _describe(
    client: "ClusterClient", group_ids: Sequence[str], *, everything: bool = False
) -> list[GroupDescription]:
    """Describe groups by name or by pattern, or all of them.

    Raises:
        BrokerError: one that was named does not exist (GROUP_ID_NOT_FOUND).
        ConfigError: no group matches a pattern.
    """
    from groupsdk.admin.groups import describe_groups_of, list_groups

    chosen = await _choose(client, group_ids, _DESCRIBED, everything=everything)
    found = await describe_groups_of(client, chosen)
    for each in found:
        if each.state == _GONE and not everything:
            types = {one.group_id: one.type for one in await list_groups(client)}
            if types.get(each.group_id, GroupType.CLASSIC) not in _DESCRIBED:
                kind = types[each.group_id]
                raise ConfigError(f"{each.group_id!r} is a {kind} group, which can only be listed")
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {each.group_id!r}")
    return found


async def _with_lag(
    client: "ClusterClient", group_ids: Sequence[str], *, everything: bool
) -> list[tuple[GroupDescription, list[PartitionLag]]]:
    from groupsdk.admin.groups import group_lag

    described = await _describe(client, group_ids, everything=everything)
    return [(each, await group_lag(client, each)) for each in described]


async def _choose(
    client: "ClusterClient",
    group_ids: Sequence[str],
    types: Collection[GroupType],
    *,
    everything: bool,
) -> Sequence[str]:
    """Return the groups that are named, and those of some types that match a pattern, or all of these types."""
    from groupsdk.admin.groups import list_groups

    if everything or any(map(is_pattern, group_ids)):
        listed: list[GroupListing] = await list_groups(client)
        there = [each.group_id for each in listed if each.type in types]
        return there if everything else _matching(group_ids, there)
    if not group_ids:
        raise click.UsageError("Give one GROUP or more, or --all.")
    return list(dict.fromkeys(group_ids))


def _matching(wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return the groups that are named, and those that match; a name with such characters is first taken as it is."""
    found: dict[str, None] = {}
    for each in wanted:
        if each in there or not is_pattern(each):
            found[each] = None
            continue
        matching = [group for group in there if matches(group, (each,))]
        if not matching:
            raise ConfigError(f"no group matches {each!r}")
        found.update(dict.fromkeys(matching))
    return list(found)


async def _partitions(client: "ClusterClient", topics: Sequence[str]) -> list[TopicPartition]:
    """Read "topic" and "topic:0,1"; a topic alone means its partitions as they are now."""
    found: list[TopicPartition] = []
    whole: list[str] = []
    for each in topics:
        name, colon, numbers = each.partition(":")
        if not colon:
            whole.append(name)
            continue
        parts = numbers.split(",")
        if not (name and all(part.isdecimal() and len(part) < 10 for part in parts)):
            raise ConfigError(f"--topic: {each!r} is not NAME or NAME:0,1")
        found += [TopicPartition(name, int(part)) for part in parts]
    described = (await client.metadata(whole)).topics if whole else {}
    for name in whole:
        topic = described.get(name)
        if topic is None or topic.error_code:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
            raise BrokerError(code, f"topic {name!r}")
        found += [TopicPartition(name, number) for number in sorted(topic.partitions)]
    return found


def _target(group_id: str, scenario: dict[str, Any]) -> "Target":
    from groupsdk.admin.offset_reset import (
        Scenario,
        Target,
        parse_datetime,
        parse_duration,
        read_offsets,
    )

    given = {key: value for key, value in scenario.items() if value not in (None, False)}
    if len(given) != 1:
        names = ", ".join(f"--{key.replace('_', '-')}" for key in scenario)
        raise click.UsageError(f"Give exactly one of {names}.")
    ((name, value),) = given.items()
    match name:
        case "by_duration":
            return Target(
                scenario=Scenario.DATETIME, number=WallClock().now_ms() - parse_duration(value)
            )
        case "to_datetime":
            return Target(scenario=Scenario.DATETIME, number=parse_datetime(value))
        case "from_file":
            text = read_text(value, "--from-file")
            offsets = read_offsets(text, value, group_id)
            return Target(scenario=Scenario.FILE, offsets=offsets)
        case _:
            number = 0 if value is True else int(value)
            return Target(scenario=Scenario(name.replace("_", "-")), number=number)


async def _reset(
    client: "ClusterClient",
    group_id: str,
    target: "Target",
    topics: Sequence[str],
    *,
    all_topics: bool,
    execute: bool,
) -> "tuple[GroupDescription, list[Reset]]":
    """Plan a reset and, where `execute` and the group has no members, commit it."""
    from groupsdk.admin.groups import commit_offsets, committed_offsets, describe_group
    from groupsdk.admin.offset_reset import plan_reset

    group = await describe_group(client, group_id)
    if target.offsets is not None:
        partitions: Collection[TopicPartition] = target.offsets
    elif all_topics:
        partitions = (await committed_offsets(client, group_id)).keys()
    else:
        partitions = await _partitions(client, topics)
    plan = await plan_reset(client, group_id, partitions, target)
    if execute and not group.active and plan:
        new = {TopicPartition(each.topic, each.partition): each.new for each in plan}
        await commit_offsets(client, group_id, new)
    return group, plan


def _write_reset(
    group: GroupDescription, plan: "Sequence[Reset]", *, execute: bool, as_json: bool
) -> None:
    """Write a plan and what became of it; end with an error where it could not be carried out."""
    if as_json:
        done = execute and not group.active
        write_json({"group_id": group.group_id, "executed": done, "partitions": plan})
    else:
        write_table(
            ("TOPIC", "PARTITION", "CURRENT", "NEW", "NOTE"),
            [(each.topic, each.partition, each.current, each.new, each.note) for each in plan],
        )
    if group.active:
        complain(
            f"the offsets of group {group.group_id!r} can be reset only while it has no members; it is"
            f" {group.state} with {len(group.members)}"
        )
        if execute:
            exit_with(ExitCode.FAILED)
    elif not plan:
        complain(f"group {group.group_id!r} has no committed offsets: give --topic")
        exit_with(ExitCode.FAILED)
    elif not execute:
        complain("nothing was changed; give --execute to commit these offsets")
    elif not as_json:
        click.echo("done", err=True)


def _chosen(
    group: GroupDescription, member_ids: Sequence[str], instances: Sequence[str]
) -> list[Member]:
    by_id = {each.member_id: each for each in group.members}
    by_instance = {each.instance_id: each for each in group.members if each.instance_id}
    missing = [each for each in member_ids if each not in by_id]
    missing += [each for each in instances if each not in by_instance]
    if missing:
        raise BrokerError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id!r}, {', '.join(missing)}"
        )
    return [by_id[each] for each in member_ids] + [by_instance[each] for each in instances]


def _total(lag: Sequence[PartitionLag]) -> int:
    return sum(each.lag or 0 for each in lag)


def _lag_json(lag: Sequence[PartitionLag]) -> list[dict[str, Any]]:
    return [{**plain(each), "lag": each.lag} for each in lag]


def _write_state(group: GroupDescription) -> None:
    write_table(
        ("GROUP", "TYPE", "STATE", "PROTOCOL", "ASSIGNOR", "EPOCH", "MEMBERS", "COORDINATOR"),
        [
            (
                group.group_id,
                group.type,
                group.state,
                group.protocol_type,
                group.assignor,
                group.epoch,
                len(group.members),
                group.coordinator,
            )
        ],
        left_out=("COORDINATOR", "PROTOCOL"),
    )


def _write_members(group: GroupDescription) -> None:
    rows = []
    have_loads = any(each.subscription.loads for each in group.members)
    have_weights = any(each.assignment.weights for each in group.members)
    for each in group.members:
        target = None
        if each.target is not None and each.target != each.assignment:
            target = each.target.text
        rows.append(
            (
                each.member_id,
                each.instance_id,
                each.client_id,
                each.host,
                each.epoch,
                each.assignment.size,
                *((f"{each.weight:.4g}",) if have_weights else ()),
                *((f"{each.load:.4g}",) if have_loads else ()),
                each.assignment.text,
                target,
            )
        )
    columns = ["MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "COUNT", "ASSIGNMENT", "TARGET"]
    for name, shown in (("WEIGHT", have_weights), ("LOAD", have_loads)):
        if shown:
            columns.insert(columns.index("ASSIGNMENT"), name)
    write_table(columns, rows, title=f"Members of {group.group_id}")


def _write_lag(group_id: str, lag: Sequence[PartitionLag]) -> None:
    columns = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST")
    rows = [
        (e.topic, e.partition, e.committed, e.end, e.lag, e.member_id, e.client_id, e.host)
        for e in lag
    ]
    title = f"Lag of {group_id}"
    write_table(columns, rows, title=title, left_out=("MEMBER", "HOST", "CLIENT"))


def _write_codes(codes: dict[str, int], what: str, *, as_json: bool) -> None:
    """Write what became of each; end with an error where one was refused."""
    if as_json:
        rows = [
            {what.lower(): name, "error": ErrorCode.of(code).name if code else None}
            for name, code in codes.items()
        ]
        write_json(rows)
    else:
        for name, code in codes.items():
            if code:
                complain(f"{name}: {describe(code)}")
            else:
                click.echo(f"{cell(name)}: done")
    if any(codes.values()):
        exit_with(ExitCode.FAILED)
