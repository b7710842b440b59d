"""Compare the codec with those of kio and kafka-python, on the same messages, in one run.

Run it with `python -m tests.benchmarks.wire_codec`. Prints CPU microseconds per message, median of the rounds;
the three take turns in every round, so that a noisy machine is noisy for all of them. kio reads with a
native extension and writes in Python; the other two are Python throughout.
"""

import io
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kafka.protocol.consumer.group import (
    HeartbeatRequest as KafkaPythonHeartbeat,
    JoinGroupResponse as KafkaPythonJoin,
)
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest as KioHeartbeat
from kio.schema.join_group.v9.response import (
    JoinGroupResponse as KioJoin,
    JoinGroupResponseMember as KioMember,
)
from kio.serial import entity_reader, entity_writer

from groupsdk.wire.compiler import decoder, encoder
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)


ROUNDS = 25
MEMBERS = 1000
GROUP, MEMBER, METADATA = (
    "group-of-workers",
    "worker-1-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0",
    b"m" * 40,
)

Call = Callable[[], Any]


def members() -> list[str]:
    """Name the members of a large group."""
    return [f"{MEMBER[:-5]}{number:05d}" for number in range(MEMBERS)]


def ours() -> dict[str, Call]:
    """Prepare our own codec."""
    beat = HeartbeatRequest(GROUP, 7, MEMBER)
    join = JoinGroupResponse(
        generation_id=7,
        protocol_type="sr",
        protocol_name="v0",
        leader=MEMBER,
        member_id=MEMBER,
        members=tuple(JoinGroupResponseMember(name, None, METADATA) for name in members()),
    )
    write_beat, read_beat = encoder(HeartbeatRequest, 4), decoder(HeartbeatRequest, 4)
    write_join, read_join = encoder(JoinGroupResponse, 9), decoder(JoinGroupResponse, 9)
    beat_data, join_data = write_beat(beat), write_join(join)
    return {
        "heartbeat request, encode": lambda: write_beat(beat),
        "heartbeat request, decode": lambda: read_beat(beat_data, 0),
        "join response of 1,000, encode": lambda: write_join(join),
        "join response of 1,000, decode": lambda: read_join(join_data, 0),
    }


def kio() -> dict[str, Call]:
    """Prepare kio."""
    beat = KioHeartbeat(group_id=GROUP, generation_id=7, member_id=MEMBER)  # type: ignore[arg-type]  # kio's NewTypes
    join = KioJoin(
        throttle_time=timedelta(0),  # type: ignore[arg-type]  # kio's NewTypes here and below
        error_code=ErrorCode.none,
        generation_id=7,  # type: ignore[arg-type]
        protocol_type="sr",
        protocol_name="v0",
        leader=MEMBER,
        member_id=MEMBER,
        members=tuple(KioMember(member_id=name, metadata=METADATA) for name in members()),
    )

    def write(entity: Any) -> Callable[[], bytes]:
        writer = entity_writer(type(entity))

        def call() -> bytes:
            buffer = io.BytesIO()
            writer(buffer, entity)
            return buffer.getvalue()

        return call

    def read(entity: Any) -> Call:
        data, reader = write(entity)(), entity_reader(type(entity))
        return lambda: reader(data, 0)

    return {
        "heartbeat request, encode": write(beat),
        "heartbeat request, decode": read(beat),
        "join response of 1,000, encode": write(join),
        "join response of 1,000, decode": read(join),
    }


def kafka_python() -> dict[str, Call]:
    """Prepare kafka-python."""
    beat = KafkaPythonHeartbeat(
        group_id=GROUP, generation_id=7, member_id=MEMBER, group_instance_id=None, version=4
    )
    member = KafkaPythonJoin.JoinGroupResponseMember
    join = KafkaPythonJoin(
        throttle_time_ms=0,
        error_code=0,
        generation_id=7,
        protocol_type="sr",
        protocol_name="v0",
        leader=MEMBER,
        skip_assignment=False,
        member_id=MEMBER,
        members=[
            member(member_id=name, group_instance_id=None, metadata=METADATA) for name in members()
        ],
        version=9,
    )
    beat_data, join_data = beat.encode(version=4), join.encode(version=9)
    return {
        "heartbeat request, encode": lambda: beat.encode(version=4),
        "heartbeat request, decode": lambda: KafkaPythonHeartbeat.decode(beat_data, version=4),
        "join response of 1,000, encode": lambda: join.encode(version=9),
        "join response of 1,000, decode": lambda: KafkaPythonJoin.decode(join_data, version=9),
    }


def told(decoded: Any) -> tuple[Any, ...]:
    """Take out of a decoded message what all three have; kio's reader returns the size with it."""
    message = decoded[0] if isinstance(decoded, tuple) else decoded
    listed = getattr(message, "members", ())
    return (message.member_id, message.generation_id, *((m.member_id, m.metadata) for m in listed))


def measure(call: Call, turns: int) -> float:
    """Measure the CPU time of one call in microseconds."""
    start = time.process_time_ns()
    for _ in range(turns):
        call()
    return (time.process_time_ns() - start) / turns / 1000


def main() -> None:
    contenders = {"groupsdk": ours(), "kio": kio(), "kafka-python": kafka_python()}
    print(f"{'us of CPU per message':32}" + "".join(f"{name:>14}" for name in contenders))
    for what in contenders["groupsdk"]:
        outputs = {name: calls[what]() for name, calls in contenders.items()}
        if what.endswith("encode") and len(set(map(bytes, outputs.values()))) != 1:
            raise SystemExit(f"{what}: the three do not write the same bytes")
        if what.endswith("decode") and len(set(map(told, outputs.values()))) != 1:
            raise SystemExit(f"{what}: the three do not read the same message")
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name, calls in contenders.items():
                once = measure(calls[what], 1)
                times[name].append(measure(calls[what], max(1, int(10_000 / max(once, 1)))))
        medians = (f"{statistics.median(each):14.2f}" for each in times.values())
        print(f"{what:32}" + "".join(medians))


if __name__ == "__main__":
    main()
