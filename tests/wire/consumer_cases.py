"""Name messages of consumers to compare with Kafka's ConsumerProtocol, and keep what it answered.

`python -m tests.wire.consumer_cases` writes the golden file anew, from the newest release compared with.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.conformance.golden import shorten
from tests.support.java import JavaProgram


RELEASES = ("4.1.0", "4.4.0")
"""The releases of kafka-clients to compare with."""

GOLDEN = Path(__file__).parent / "golden_consumer_protocol.json"
_PROGRAM = Path(__file__).parent / "java" / "ConsumerBytes.java"

# U+FFFD sorts behind U+1F600 by UTF-16 code units only
_TOPICS = ("zebra", "ß", "\ufffd", "\U0001f600", "a", "Z")

SUBSCRIPTIONS = {
    "nothing": ConsumerProtocolSubscription(),
    "one topic": ConsumerProtocolSubscription(("t",)),
    "topics are sorted": ConsumerProtocolSubscription(_TOPICS),
    "a topic twice": ConsumerProtocolSubscription(("t", "a", "t")),
    "empty user data": ConsumerProtocolSubscription(("t",), b""),
    "user data": ConsumerProtocolSubscription(("t",), bytes(range(256))),
    "owned": ConsumerProtocolSubscription(("t",), None, {"t": (3, 1, 2), "a": (0,), "Z": (7,)}, 5),
    "owned beyond ASCII": ConsumerProtocolSubscription((), None, dict.fromkeys(_TOPICS, (0, 1)), 0),
    "odd partitions": ConsumerProtocolSubscription(
        (), None, {"t": (2**31 - 1, -1, 0, 0)}, 2**31 - 1
    ),
    "a rack": ConsumerProtocolSubscription(("t",), b"\x01", {"t": (0,)}, 9, "rack-ß"),
    "an empty rack": ConsumerProtocolSubscription(("t",), rack_id=""),
    "no generation": ConsumerProtocolSubscription(("t",), generation_id=-7),
    "the longest name": ConsumerProtocolSubscription(("y" * 32767,)),
}

ASSIGNMENTS = {
    "nothing": ConsumerProtocolAssignment(),
    "in its own order": ConsumerProtocolAssignment({"z": (3, 1), "a": (0,), "ß": (2, 2)}),
    "user data": ConsumerProtocolAssignment({"t": (0,)}, b"\x00\xff"),
    "empty user data": ConsumerProtocolAssignment({}, b""),
    "many": ConsumerProtocolAssignment({"t": tuple(range(1000))}),
}

_READABLE = (
    "0003 00000001 0001 74 ffffffff 00000001 0001 74 00000002 00000001 00000000 00000004 0001 72"
)

SUBSCRIPTION_BYTES = {
    "version 3": _READABLE,
    "version 9, with more at the end": _READABLE.replace("0003", "0009", 1) + "beef",
    "version 2, the rack passed over": _READABLE.replace("0003", "0002", 1),
    "version 1": _READABLE.replace("0003", "0001", 1),
    "version 0": _READABLE.replace("0003", "0000", 1),
    "no topics": "0003 00000000 ffffffff 00000000 ffffffff ffff",
    "a topic owned twice": "0001 00000000 ffffffff 00000002 0001 74 00000001 00000001"
    "0001 74 00000001 00000002",
    "a generation of -5": "0002 00000000 ffffffff 00000000 fffffffb",
    "an empty rack": "0003 00000000 ffffffff 00000000 00000001 0000",
    "version -1": "ffff 00000000 ffffffff",
    "topics null": "0000 ffffffff ffffffff",
    "a topic null": "0000 00000001 ffff ffffffff",
    "owned null": "0001 00000000 ffffffff ffffffff",
    "too many topics": "0000 7fffffff ffffffff",
    "too many partitions": "0001 00000000 ffffffff 00000001 0001 74 7fffffff 00000001",
    "user data that ends early": "0000 00000000 00000005 0102",
    "ends in a topic": "0000 00000001 0005 74",
    "one byte": "00",
    "no bytes": "",
}

ASSIGNMENT_BYTES = {
    "version 0": "0000 00000001 0001 74 00000002 00000001 00000000 ffffffff",
    "version 9, with more at the end": "0009 00000001 0001 74 00000001 00000001 00000001 07 beef",
    "version -1": "ffff 00000000 ffffffff",
    "partitions null": "0000 ffffffff ffffffff",
    "ends in a partition": "0000 00000001 0001 74 00000001 0000",
    "no user data": "0000 00000000",
}


def _listed(partitions: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def subscription_fields(subscription: ConsumerProtocolSubscription) -> dict[str, Any]:
    """Write a subscription as the Java program does."""
    return {
        "topics": list(subscription.topics),
        "user_data": _hex(subscription.user_data),
        "owned": _listed(subscription.owned_partitions),
        "generation": subscription.generation_id,
        "rack": subscription.rack_id,
    }


def assignment_fields(assignment: ConsumerProtocolAssignment) -> dict[str, Any]:
    """Write an assignment as the Java program does."""
    return {
        "partitions": _listed(assignment.assigned_partitions),
        "user_data": _hex(assignment.user_data),
    }


def questions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Name everything to ask Kafka's class, and put it the way the Java program reads it."""
    for version in range(4):
        for name, subscription in SUBSCRIPTIONS.items():
            fields = subscription_fields(subscription)
            yield f"subscription {version} {name}", {"version": version, "subscription": fields}
        for name, assignment in ASSIGNMENTS.items():
            given = assignment_fields(assignment)
            yield f"assignment {version} {name}", {"version": version, "assignment": given}
    for name, text in SUBSCRIPTION_BYTES.items():
        yield f"read subscription {name}", {"read_subscription": text.replace(" ", "")}
    for name, text in ASSIGNMENT_BYTES.items():
        yield f"read assignment {name}", {"read_assignment": text.replace(" ", "")}


@contextmanager
def _program(release: str) -> Iterator[JavaProgram]:
    clients = f"org.apache.kafka:kafka-clients:{release}"
    jackson = "com.fasterxml.jackson.core:jackson-databind:2.19.0"
    with JavaProgram(_PROGRAM, [clients, jackson]) as program:
        yield program


def ask(release: str) -> dict[str, Any]:
    """Have one release answer everything."""
    with _program(release) as program:
        return {name: _answer(program.ask(json.dumps(question))) for name, question in questions()}


def _answer(line: str) -> Any:
    return json.loads(line) if line[:1] in '{"' else shorten(line)


def main() -> None:
    rows = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in ask(RELEASES[-1]).items())
    GOLDEN.write_text("{" + ",\n".join(rows) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
