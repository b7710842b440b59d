#!/usr/bin/env python
"""Draw docs/protocol.md, and the states in docs/broker-design.md, connect.md and shards.md, from the tables of the code.

Run `python -m docs.draw_states`.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any

from docs.regions import Pages, filled, table, write
from groupsdk.broker.coordinator import group_status
from groupsdk.broker.coordinator.consumer import member as consumer_member
from groupsdk.broker.coordinator.runtime import coordinator_runtime
from groupsdk.broker.coordinator.transactions import metadata as transaction_state
from groupsdk.broker.server import connection
from groupsdk.connect.group import herder
from groupsdk.connect.store import status_backing_store as statuses
from groupsdk.error_code import ErrorCode
from groupsdk.errors import broker_error
from groupsdk.member.classic.replies import (
    CALLER_REQUEST_REPLIES,
    DEFAULTS,
    REPLIES,
    ClassicReaction,
)
from groupsdk.member.classic.state import TRANSITIONS
from groupsdk.member.consumer import replies as consumer_replies, state as consumer_state
from groupsdk.member.membership import Reply
from groupsdk.member.state import MemberState
from groupsdk.shards import owner
from groupsdk.wire.schema import ApiKey


_COLUMNS = "Error code", "The member", "Raises", "Why"
_OTHERS = "any other that is retriable", "any other"


def diagram(
    transitions: Mapping[Any, Enum],
    initial: Enum,
    name: Callable[[Any], str] = attrgetter("name"),
) -> str:
    """Return states and their transitions as a Mermaid diagram; `name` gives the text of a state."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {name(initial)}"]
    lines += [
        f"    {name(state)} --> {name(following)}: {trigger.value}"
        for (state, trigger), following in transitions.items()
    ]
    return "\n".join([*lines, "```"])


def matrix(transitions: Mapping[Any, Enum], triggers: type[Enum]) -> str:
    """Return transitions as a table of states and triggers, where most triggers come in most states."""
    rows: dict[Enum, dict[Enum, str]] = {}
    for (state, trigger), following in transitions.items():
        rows.setdefault(state, {})[trigger] = f"`{following.name}`"
    return table(
        ("State", *(each.value for each in triggers)),
        [
            (f"`{state.name}`", *(row.get(each, "") for each in triggers))
            for state, row in rows.items()
        ],
    )


def states(kind: type[Enum], subject: str = "The member") -> str:
    """Return what each state means and what is done in it, from the docstrings under the members of an enum."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    rows: list[tuple[str, str]] = []
    for member, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(below, ast.Expr):
            assert isinstance(member.targets[0], ast.Name)
            text = " ".join(inspect.cleandoc(ast.literal_eval(below.value)).split())
            meaning, _, action = text.partition(" transition:")[0].partition(" action: ")
            rows.append((f"`{member.targets[0].id}`", f"{meaning} {_sentence(action)}".rstrip()))
    return table(("State", subject), rows)


def broker_pages() -> Pages:
    """Return docs/broker-design.md as it has to be."""
    return filled(
        "broker-design.md",
        {
            "connection-states": diagram(
                connection.TRANSITIONS, connection.ConnectionState.READY, attrgetter("value")
            ),
            "group-states": diagram(
                group_status.TRANSITIONS, group_status.GroupState.EMPTY, attrgetter("value")
            ),
            "consumer-group-states": diagram(
                group_status.CONSUMER_TRANSITIONS,
                group_status.ConsumerGroupState.EMPTY,
                attrgetter("value"),
            ),
            "consumer-group-actions": states(group_status.ConsumerGroupState, "The group"),
            "consumer-group-member-states": diagram(
                consumer_member.MEMBER_TRANSITIONS, consumer_member.MemberState.STABLE
            ),
            "consumer-group-member-actions": states(consumer_member.MemberState),
            "transaction-states": diagram(
                transaction_state.TRANSITIONS,
                transaction_state.TransactionState.EMPTY,
                attrgetter("label"),
            ),
            "runtime-states": diagram(
                coordinator_runtime.TRANSITIONS,
                coordinator_runtime.RuntimeState.LOADING,
                attrgetter("value"),
            ),
        },
    )


def shards_pages() -> Pages:
    """Return docs/shards.md as it has to be."""
    return filled(
        "shards.md",
        {
            "shard-states": diagram(owner.TRANSITIONS, owner.ShardState.GONE),
            "shard-actions": states(owner.ShardState, "The shard"),
        },
    )


def connect_pages() -> Pages:
    """Return docs/connect.md as it has to be."""
    everywhere = herder.HerderTrigger.ASSIGNED, herder.HerderTrigger.LOST
    transitions = {
        key: following for key, following in herder.TRANSITIONS.items() if key[1] not in everywhere
    }
    transitions[herder.HerderState.OUTSIDE, everywhere[0]] = herder.HerderState.ASSIGNED
    return filled(
        "connect.md",
        {
            "worker-states": diagram(transitions, herder.HerderState.OUTSIDE),
            "worker-actions": states(herder.HerderState, "The worker"),
            "task-transitions": matrix(statuses.TASK_TRANSITIONS, statuses.TaskTrigger),
            "task-actions": states(statuses.State, "The connector or task"),
        },
    )


def consumer_reply_table() -> str:
    """Return what a member of the consumer protocol does on each error code of a heartbeat."""
    rows = [
        (
            f"`{code.name}` ({code.value}){where}",
            reply.reaction.value,
            _raised(reply, code),
            reply.note,
        )
        for where, codes in (
            ("", consumer_replies.HEARTBEAT_REPLIES),
            (", to a join", consumer_replies.JOIN_REPLIES),
        )
        for code, reply in codes.items()
    ]
    for text, reply in zip(_OTHERS, consumer_replies.HEARTBEAT_DEFAULTS, strict=True):
        rows.append((text, reply.reaction.value, _raised(reply), reply.note))
    return table(_COLUMNS, rows)


def reply_table(api: ApiKey) -> str:
    """Return what a member does on each error code of the answers of one API."""
    rows = [_row(code, reply) for code, reply in REPLIES[api].items()]
    rows += [_row(text, reply) for text, reply in zip(_OTHERS, DEFAULTS[api], strict=True)]
    return table(_COLUMNS, rows)


def replies() -> str:
    """Return all reply tables."""
    return "\n\n".join(f"### {_title(api)}\n\n{reply_table(api)}" for api in REPLIES)


def caller_requests() -> str:
    """Return what a member does on an error code in the answer to a request of its caller's."""
    rows = [_row(code, reply) for code, reply in CALLER_REQUEST_REPLIES.items()]
    return table(_COLUMNS, rows)


def pages() -> Pages:
    """Return all pages as they have to be."""
    regions = {
        "states": diagram(TRANSITIONS, MemberState.UNJOINED),
        "actions": states(MemberState),
        "replies": replies(),
        "caller-requests": caller_requests(),
        "consumer-states": diagram(
            consumer_state.TRANSITIONS, consumer_state.ConsumerMemberState.UNSUBSCRIBED
        ),
        "consumer-actions": states(consumer_state.ConsumerMemberState),
        "consumer-replies": consumer_reply_table(),
    }
    return broker_pages() | connect_pages() | shards_pages() | filled("protocol.md", regions)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(code: ErrorCode | str, reply: Reply) -> tuple[str, str, str, str]:
    note = "" if reply.reaction is ClassicReaction.PROCEED else reply.note
    if reply.if_current:
        note += "; ignored when the generation has changed since the request was sent"
    if isinstance(code, ErrorCode):
        return f"`{code.name}` ({code.value})", reply.reaction.value, _raised(reply, code), note
    return code, reply.reaction.value, _raised(reply), note


def _raised(reply: Reply, code: ErrorCode | None = None) -> str:
    """Return what the caller's calls raise, with its flags and how often."""
    if not reply.reaction.tells:
        return ""
    error = None if code is None else broker_error(code)
    name = "its exception" if error is None else f"`{type(error).__name__}`"
    if reply.reaction.ends:
        return f"{name}, `fatal`, from every call"
    flag = ", `retriable`" if error is not None and error.retriable else ""
    return f"{name}{flag}, once for each answer"


def _title(api: ApiKey) -> str:
    return "".join(word.capitalize() for word in api.name.split("_"))


if __name__ == "__main__":
    write(pages)
