"""Groups that are not of consumers: Connect's workers, elections, and those of which nothing is known."""

import json
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from examples.history_log import Pair
from groupsdk.assignment import Assignment, Subscription
from groupsdk.assignment.subscriptions import encode_assignments, encode_subscription
from groupsdk.history.explain.arrow_batches import tables_of
from groupsdk.history.explain.explaining import Context, explain
from groupsdk.history.explain.timeline.rows import GroupRecord
from groupsdk.history.explain.timeline.worker_protocols import CONNECT, LEADERSHIP, work_of
from groupsdk.history.read.batches import read_batches
from groupsdk.history.read.reading import Reader
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stages import RECORDS
from groupsdk.wire.connect_protocol import (
    CONFIG_MISMATCH,
    ConnectAssignment,
    ConnectorTaskId,
    WorkerState,
    encode_assignment,
    encode_metadata,
)
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offsets_log import write
from groupsdk.wire.records.record import Record, build_batch
from groupsdk.wire.shards.protocol import (
    MemberState,
    ShardAssignment,
    encode_assignment as encode_shards,
    encode_member,
)


A, B = "connect-a", "connect-b"


def tasks(name: str, *numbers: int) -> tuple[ConnectorTaskId, ...]:
    """Name tasks of a connector."""
    return tuple(ConnectorTaskId(name, number) for number in numbers)


def generation(
    number: int,
    members: Mapping[str, tuple[bytes, bytes]],
    *,
    kind: str = CONNECT,
    protocol: str = "sessioned",
) -> Pair:
    """Write the record of a generation, of members with what they joined with and were given."""
    seats = tuple(
        MemberMetadata(member_id, None, f"client-{member_id}", "/h", 60_000, 10_000, *payload)
        for member_id, payload in members.items()
    )
    leader = next(iter(members), None)
    value = GroupMetadataValue(kind, number, protocol, leader, 1000 * number, seats)
    return write(GroupMetadataKey("workers"), value)


def state(held: ConnectAssignment | None = None, offset: int = 3) -> bytes:
    """Write what a worker joins with."""
    return encode_metadata(WorkerState("http://a:8083/", offset, held))


def tables(*pairs: Pair) -> dict[str, list[dict[str, Any]]]:
    """Make the tables of a group."""
    records = [
        GroupRecord("workers", 0, number, 1000 * number, 0, *pair)
        for number, pair in enumerate(pairs, 1)
    ]
    *_, made = explain(records, Context(), Counter())
    found = {
        name: [dict(zip(TABLES[name].arrow_schema.names, row, strict=True)) for row in rows]
        for name, rows in made.items()
        if name not in ("assignments", "replay")
    }
    found["assignments"] = [
        {"seq": each.of.seq, "member": each.of.member.member_id, "has": each.assigned}
        for each in made["assignments"]
    ]
    return found


ALL = ConnectAssignment(connectors=("sink",), tasks=tasks("sink", 0, 1))


def test_an_eager_assignment_is_all_that_a_worker_has() -> None:
    data = encode_assignment(ALL, 0)
    work = work_of(CONNECT, A, encode_metadata(WorkerState("http://a/", 7), 0), data)
    assert work.assigned == (("sink", (-1, 0, 1)),)
    assert (work.payload.url, work.payload.config_offset, work.payload.delay_ms) == (
        "http://a/",
        7,
        0,
    )


def test_a_cooperative_assignment_adds_to_what_a_worker_has() -> None:
    given = ConnectAssignment(
        tasks=tasks("source", 4), revoked_tasks=tasks("sink", 1), delay_ms=9_000
    )
    for version in (1, 2):
        work = work_of(CONNECT, A, state(ALL), encode_assignment(given, version))
        assert work.owned == (("sink", (-1, 0, 1)),)
        assert work.assigned == (("sink", (-1, 0)), ("source", (4,)))
        assert work.payload.delay_ms == 9_000
    # an error says to take nothing up, and to give nothing up either
    failed = encode_assignment(ConnectAssignment(CONFIG_MISMATCH, revoked_tasks=tasks("sink", 0)))
    assert work_of(CONNECT, A, state(ALL), failed).assigned == (("sink", (-1, 0, 1)),)


def test_work_that_a_worker_gives_up_goes_to_another_in_the_next_round() -> None:
    half = ConnectAssignment(connectors=("sink",), tasks=tasks("sink", 0))
    nothing = encode_assignment(ConnectAssignment())
    found = tables(
        generation(1, {A: (state(), encode_assignment(ALL))}),
        generation(
            2,
            {
                A: (
                    state(ALL),
                    encode_assignment(ConnectAssignment(revoked_tasks=tasks("sink", 1))),
                ),
                B: (state(), nothing),
            },
        ),
        generation(
            3,
            {
                A: (state(half), nothing),
                B: (state(), encode_assignment(ConnectAssignment(tasks=tasks("sink", 1)))),
            },
        ),
        # another connector comes
        generation(
            4,
            {
                A: (
                    state(half, 4),
                    encode_assignment(ConnectAssignment(connectors=("new",))),
                ),
                B: (state(ConnectAssignment(tasks=tasks("sink", 1)), 4), nothing),
            },
        ),
    )
    assert [row["primary_cause"] for row in found["generations"]] == [
        *("join", "join"),
        *("cooperative_followup", "work_change"),
    ]
    (move,) = found["moves"]
    assert (move["topic"], move["partition"], move["from_member"], move["to_member"]) == (
        *("sink", 1),
        *(A, B),
    )
    assert move["idle_generations"] == 1
    assert found["assignments"][-2:] == [
        {"seq": 3, "member": A, "has": (("new", (-1,)), ("sink", (-1, 0)))},
        {"seq": 3, "member": B, "has": (("sink", (1,)),)},
    ]
    assert [row["config_offset"] for row in found["payloads"]] == [3, 3, 3, 3, 3, 4, 4]
    assert [row["n_partitions"] for row in found["generations"]] == [3, 2, 3, 4]
    assert not found.get("replay_summary")


def test_work_that_is_held_back_for_a_worker_comes_with_a_delay() -> None:
    mine = ConnectAssignment(connectors=("sink",))
    rest = ConnectAssignment(tasks=tasks("sink", 0))
    found = tables(
        generation(
            1, {A: (state(), encode_assignment(mine)), B: (state(), encode_assignment(rest))}
        ),
        generation(2, {A: (state(mine), encode_assignment(ConnectAssignment(delay_ms=300_000)))}),
        generation(3, {A: (state(mine), encode_assignment(rest))}),
    )
    assert [row["delay_ms"] for row in found["payloads"]] == [0, 0, 300_000, 0]
    assert found["generations"][2]["primary_cause"] == "cooperative_followup"
    (move,) = found["moves"]
    assert (move["from_member"], move["to_member"], move["idle_generations"]) == (B, A, 1)


def test_elected_member_has_the_leadership() -> None:
    def elected(number: int, leader: str) -> Pair:
        identity = {"host": "h", "port": 8081, "scheme": "https", "master_eligibility": True}
        told = {"master": leader, "master_identity": identity, "error": 0, "version": 1}
        payload = json.dumps(identity).encode(), json.dumps(told).encode()
        return generation(number, {A: payload, B: payload}, kind="sr", protocol="v0")

    found = tables(elected(1, A), elected(2, B))
    assert [(row["topic"], row["from_member"], row["to_member"]) for row in found["moves"]] == [
        (LEADERSHIP, A, B)
    ]
    assert {row["url"] for row in found["payloads"]} == {"https://h:8081"}
    verdict = json.dumps({"leader_id": A, "leader_name": "a", "standby": []}).encode()
    work = work_of("leader-election", A, b'{"name": "a"}', verdict)
    assert work.assigned == ((LEADERSHIP, (0,)),)
    assert work_of("leader-election", B, b'{"name": "b"}', verdict).assigned == ()


def test_consumers_of_a_type_of_their_own_have_topics_and_partitions() -> None:
    joined = encode_subscription(Subscription(["t"]))
    given = encode_assignments({A: Assignment({"t": [0, 1]}), B: Assignment({"t": [2]})})
    moved = encode_assignments({A: Assignment({"t": [0]}), B: Assignment({"t": [1, 2]})})
    found = tables(
        *(
            generation(
                number,
                {each: (joined, plan[each]) for each in (A, B)},
                kind="work",
                protocol="weighted",
            )
            for number, plan in enumerate((given, moved), 1)
        )
    )
    assert found["payloads"] == []
    assert [(row["topic"], row["partition"]) for row in found["moves"]] == [("t", 1)]
    assert {each["has"] for each in found["assignments"]} == {
        (("t", (0, 1)),),
        (("t", (2,)),),
        (("t", (0,)),),
        (("t", (1, 2)),),
    }


def test_shard_workers_have_their_shards_as_numbered_work() -> None:
    def joined(held: dict[str, int]) -> bytes:
        return encode_member(MemberState(held=held, endpoint="http://a"))

    def given(*names: str) -> bytes:
        return encode_shards(ShardAssignment(1, 1, dict.fromkeys(names, 7)))

    first = {
        A: (joined({}), given("queue-0", "queue-1", "main", "day-007")),
        B: (joined({}), given()),
    }
    second = {
        A: (joined({"queue-0": 7, "queue-1": 7}), given("queue-0", "main", "day-007")),
        B: (joined({}), given("queue-1")),
    }
    found = tables(
        *(
            generation(number, members, kind="crawl", protocol="shards")
            for number, members in enumerate((first, second), 1)
        )
    )
    assert [(row["topic"], row["partition"]) for row in found["moves"]] == [("queue", 1)]
    assert (("day-007", (-1,)), ("main", (-1,)), ("queue", (0, 1))) in {
        each["has"] for each in found["assignments"]
    }
    assert found["payloads"][0]["url"] == "http://a"


def test_shard_workers_have_the_weight_of_their_shards_and_what_they_stand_by_for() -> None:
    owner = ShardAssignment(1, 1, {"a": 7, "b": 7}, standbys=("d", "c"), weights={"a": 2.5})
    members = {
        A: (encode_member(MemberState()), encode_shards(owner)),
        B: (encode_member(MemberState()), encode_shards(ShardAssignment(1, 1, {"c": 7, "d": 7}))),
    }
    found = tables(generation(1, members, kind="crawl", protocol="shards"))["payloads"]
    assert [(row["weight"], row["standbys"]) for row in found] == [(3.5, ("c", "d")), (None, ())]


def test_of_what_is_not_known_there_are_sizes_and_digests() -> None:
    found = tables(generation(1, {A: (b"mine", b"yours"), B: (b"", b"")}, kind="unheard of"))
    first, second = found["payloads"]
    assert (first["metadata_bytes"], first["assignment_bytes"]) == (4, 5)
    assert first["metadata_digest"] == sha256(b"mine").hexdigest()[:16]
    assert (second["metadata_bytes"], second["metadata_digest"]) == (0, None)
    assert [row["protocol_type"] for row in found["payloads"]] == ["unheard of"] * 2
    assert [each["has"] for each in found["assignments"]] == [(), ()]


def test_arrow_batch_of_worker_protocols_has_the_rows_of_python() -> None:
    told = generation(1, {A: (state(), encode_assignment(ALL))})
    (records,) = read_batches(build_batch([Record(0, 1000, *told)]))
    batches = [batch for name, batch in Reader().take(records, 0, "") if name == RECORDS]
    (batch,) = (each for name, each in tables_of(batches, Context()) if name == "payloads")
    (row,) = batch.to_pylist()
    assert (row["group_id"], row["protocol_type"], row["config_offset"]) == ("workers", CONNECT, 3)


def test_unreadable_payload_is_rejected_with_its_size() -> None:
    broken = {
        CONNECT: (state()[:5], b""),
        "sr": (b"{}", b"[]"),
        "leader-election": (b"", b"no JSON"),
    }
    for kind, payload in broken.items():
        found = tables(generation(1, {A: payload}, kind=kind))
        (reject,) = found["rejects"]
        assert f"member {A}: " in reject["reason"]
        assert found["payloads"][0]["metadata_bytes"] == len(payload[0])
