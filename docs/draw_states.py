#!/usr/bin/env python
"""Draw docs/protocol.md from the tables of the code: `python -m docs.draw_states`."""

from docs.regions import Pages, filled, table, write
from groupsdk.consumer_membership import replies as consumer_replies, state as consumer_state
from groupsdk.membership.replies import (
    CALLER_REQUEST_REPLIES,
    DEFAULTS,
    REPLIES,
    Reaction,
    Reply,
)
from groupsdk.membership.state import TRANSITIONS, MemberState
from groupsdk.wire.schema import ApiKey


def diagram() -> str:
    """Return the states and their transitions as a Mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {MemberState.UNJOINED.name}"]
    lines += [
        f"    {state.name} --> {following.name}: {trigger.value}"
        for (state, trigger), following in TRANSITIONS.items()
    ]
    return "\n".join([*lines, "```"])


def consumer_diagram() -> str:
    """Return the states of the consumer protocol and their transitions as a Mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> UNSUBSCRIBED"]
    lines += [
        f"    {state.name} --> {following.name}: {trigger.value}"
        for (state, trigger), following in consumer_state.TRANSITIONS.items()
    ]
    return "\n".join([*lines, "```"])


def consumer_reply_table() -> str:
    """Return what a member of the consumer protocol does on each error code of a heartbeat."""
    rows = [
        (f"`{code.name}` ({code.value})", reply.reaction.value, reply.note)
        for code, reply in consumer_replies.HEARTBEAT_REPLIES.items()
    ]
    retriable, other = consumer_replies.HEARTBEAT_DEFAULTS
    rows.append(("any other that is retriable", retriable.reaction.value, retriable.note))
    rows.append(("any other", other.reaction.value, other.note))
    return table(("Error code", "The member", "Why"), rows)


def reply_table(api: ApiKey) -> str:
    """Return what a member does on each error code of the answers of one API."""
    rows = [_row(f"`{code.name}` ({code.value})", reply) for code, reply in REPLIES[api].items()]
    retriable, other = DEFAULTS[api]
    rows += [_row("any other that is retriable", retriable), _row("any other", other)]
    return table(("Error code", "The member", "Why"), rows)


def replies() -> str:
    """Return all reply tables."""
    return "\n\n".join(f"### {_title(api)}\n\n{reply_table(api)}" for api in REPLIES)


def asks() -> str:
    """Return what a member does on an error code in the answer to what a consumer asks."""
    rows = [
        _row(f"`{code.name}` ({code.value})", reply)
        for code, reply in CALLER_REQUEST_REPLIES.items()
    ]
    return table(("Error code", "The member", "Why"), rows)


def pages() -> Pages:
    """Return docs/protocol.md as it has to be."""
    return filled(
        "protocol.md",
        {
            "states": diagram(),
            "replies": replies(),
            "asks": asks(),
            "consumer-states": consumer_diagram(),
            "consumer-replies": consumer_reply_table(),
        },
    )


def _row(code: str, reply: Reply) -> tuple[str, str, str]:
    note = "" if reply.reaction is Reaction.PROCEED else reply.note
    if reply.if_current:
        note += "; ignored when the generation has changed since the request was sent"
    return code, reply.reaction.value, note


def _title(api: ApiKey) -> str:
    return "".join(word.capitalize() for word in api.name.split("_"))


if __name__ == "__main__":
    write(pages)
