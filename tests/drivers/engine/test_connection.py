"""Test one connection against answers that are late, wrong, cut, oversized or random."""

import asyncio
import random
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.drivers.engine.connection import Connection
from groupsdk.errors import (
    DecodeError,
    DisconnectedError,
    EncodeError,
    FrameError,
    GroupSdkError,
    UnsupportedVersionError,
    WireError,
)
from groupsdk.wire.api import ApiVersionRanges, encode_response
from groupsdk.wire.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupsdk.wire.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)
from groupsdk.wire.schema import ApiKey, Request, Response
from tests.drivers.engine.rig import WAIT_S, run
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_steps import (
    KAFKA_1_0,
    KAFKA_4_3,
    Step,
    cut,
    hang_up,
    oversized,
    raw,
    shortened,
    twice,
    wrong_correlation_id,
)


LIMIT = 1_000_000


@asynccontextmanager
async def connected(
    broker: ScriptedBroker, max_frame_bytes: int = LIMIT
) -> AsyncIterator[Connection]:
    registry: set[Connection] = set()
    connection = Connection(broker.host, broker.port, "me", max_frame_bytes, 30_000, registry)
    await asyncio.get_running_loop().create_connection(lambda: connection, broker.host, broker.port)
    assert registry == {connection}
    connection.versions = ApiVersionRanges(
        {int(key): value for key, value in broker.versions.items()}
    )
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()
        assert registry == set()


REQUESTS: list[Request[Any]] = [
    ApiVersionsRequest(client_software_name="x", client_software_version="1"),
    MetadataRequest(topics=()),
    FindCoordinatorRequest(coordinator_keys=("g",)),
    JoinGroupRequest(group_id="g"),
    SyncGroupRequest(group_id="g", protocol_type="work", protocol_name="p"),
    HeartbeatRequest(group_id="g"),
    LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),)),
]


def test_answers_come_in_the_order_of_the_requests(broker: ScriptedBroker) -> None:
    async def work() -> None:
        async with connected(broker) as connection:
            assert connection.usable
            futures = [connection.request(MetadataRequest(topics=())) for _ in range(100)]
            assert not connection.idle
            answers = await asyncio.gather(*futures)
            assert {answer.brokers[0].port for answer in answers} == {broker.port}
            assert connection.idle

    run(work())
    assert [each.client_id for each in broker.seen()] == ["me"] * 100


async def test_an_answer_may_come_byte_by_byte(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.METADATA, Step(trickled=True))
    async with connected(broker) as connection:
        answer = await connection.request(MetadataRequest(topics=()))
        assert answer.brokers[0].host == "127.0.0.1"


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
async def test_cut_at_every_byte_of_the_answer(
    request_: Request[Any], broker: ScriptedBroker
) -> None:
    lengths: list[int] = []

    def measure(frame: bytes) -> bytes:
        lengths.append(len(frame))
        return frame

    broker.script(request_.api.key, Step(garble=measure))
    async with connected(broker) as connection:
        await connection.request(request_)
    for position in range(lengths[0]):
        broker.script(request_.api.key, cut(position))
        async with connected(broker) as connection:
            with pytest.raises(DisconnectedError, match=f"{broker.port} closed the connection"):
                await connection.request(request_)
            assert not connection.usable
            assert isinstance(connection.error, DisconnectedError)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
async def test_answers_that_end_too_early(request_: Request[Any], broker: ScriptedBroker) -> None:
    for missing in (1, 2, 3):
        broker.script(request_.api.key, shortened(missing))
        async with connected(broker) as connection:
            with pytest.raises(DecodeError, match=f"127.0.0.1:{broker.port}"):
                await connection.request(request_)
            assert not connection.usable


@pytest.mark.parametrize(
    ("step", "error", "text"),
    [
        (wrong_correlation_id(), DecodeError, "got the response to request 2147483647, expected 1"),
        (oversized(LIMIT + 1), FrameError, "1000001 bytes is over the limit of 1000000"),
        (oversized(2**31 - 1), FrameError, "over the limit"),
        (oversized(-1), FrameError, "negative length -1"),
        (raw(b"\0\0\0\0"), DecodeError, "no correlation id"),
        (raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), FrameError, "speaks HTTP"),
        (raw(b"\x15\x03\x03\x00\x02\x02\x46\0"), FrameError, "speaks TLS"),
        (hang_up(), DisconnectedError, "closed the connection"),
        (Step(answer=HeartbeatResponse()), DecodeError, "JoinGroupResponse"),
    ],
    ids=lambda each: "",
)
async def test_malformed_answer_ends_the_connection_with_the_reason(
    step: Step, error: type[GroupSdkError], text: str, broker: ScriptedBroker
) -> None:
    broker.script(ApiKey.JOIN_GROUP, step)
    async with connected(broker) as connection:
        first = connection.request(JoinGroupRequest(group_id="g"))
        second = connection.request(HeartbeatRequest(group_id="g"))
        with pytest.raises(error, match=text):
            await first
        with pytest.raises(error, match=text):
            await second
        with pytest.raises(error, match=text):
            connection.request(HeartbeatRequest(group_id="g"))
        assert "(closed)" in repr(connection)


async def test_an_answer_too_many_ends_the_connection(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.HEARTBEAT, twice())
    async with connected(broker) as connection:
        assert (await connection.request(HeartbeatRequest(group_id="g"))).error_code == 25
        await asyncio.wait_for(connection.wait_closed(), WAIT_S)
        assert isinstance(connection.error, DecodeError)
        assert "expected none" in str(connection.error)


@contextmanager
def at_most_bytes(limit: int) -> Iterator[None]:
    """Fail where Python takes more memory than that, at any moment."""
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] - before < limit
    finally:
        if ours:
            tracemalloc.stop()


async def test_a_claimed_length_costs_no_memory(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.HEARTBEAT, oversized(99_000_000))
    async with connected(broker, 100_000_000) as connection:
        with at_most_bytes(2_000_000):
            waiting = connection.request(HeartbeatRequest(group_id="g"))
            await asyncio.to_thread(
                broker.wait_for, lambda: len(broker.seen(ApiKey.HEARTBEAT)) == 1
            )
            done, _ = await asyncio.wait([waiting], timeout=0.05)
            assert not done


async def test_an_element_count_costs_no_memory(broker: ScriptedBroker) -> None:
    """An array of 2^31 - 1 members in an answer of a few bytes."""
    answer = encode_response(JoinGroupResponse(), 5, 1)
    claimed = answer[:-4] + b"\x7f\xff\xff\xff"
    broker.script(ApiKey.JOIN_GROUP, raw(claimed))
    async with connected(broker) as connection:
        with at_most_bytes(2_000_000), pytest.raises(DecodeError):
            await connection.request(JoinGroupRequest(group_id="g"), 5)


ANSWERS: list[tuple[Request[Any], Response]] = [
    (ApiVersionsRequest(), ApiVersionsResponse()),
    (MetadataRequest(topics=()), MetadataResponse()),
    (JoinGroupRequest(group_id="g"), JoinGroupResponse(member_id="m" * 30)),
    (SyncGroupRequest(group_id="g"), SyncGroupResponse(assignment=b"a" * 30)),
    (HeartbeatRequest(group_id="g"), HeartbeatResponse()),
    (LeaveGroupRequest(group_id="g"), LeaveGroupResponse()),
]


async def test_random_and_mutated_answers_raise_nothing_but_our_errors() -> None:
    """Fed to the connection without a socket: thousands of answers, in all versions."""
    rng = random.Random(20_260)
    for _ in range(4_000):
        message, response = rng.choice(ANSWERS)
        version = rng.randint(message.api.min_version, message.api.max_version)
        good = encode_response(response, version, 1)
        connection = Connection("h", 1, "me", LIMIT, 30_000, set())
        transport = FakeTransport()
        connection.connection_made(transport)
        future = connection.request(plain(message), version)
        connection.data_received(damaged(good, rng))
        connection.connection_lost(None)
        error = future.exception()
        assert error is None or isinstance(error, WireError | DisconnectedError)
        assert connection.error is not None


def plain(message: Request[Any]) -> Request[Any]:
    """Return a request that every version can carry: only the answer matters here."""
    return type(message)() if not isinstance(message, LeaveGroupRequest) else LeaveGroupRequest()


def damaged(frame: bytes, rng: random.Random) -> bytes:
    data = bytearray(frame)
    match rng.randrange(4):
        case 0:  # other bytes after the correlation id
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(8, len(data) + 1) - 1] = rng.randrange(256)
        case 1:  # a shorter or longer one that says so
            size = rng.randint(4, len(data) + 8)
            data = data[:size] + bytearray(rng.randbytes(max(0, size - len(data))))
            data[:4] = (len(data) - 4).to_bytes(4, "big")
        case 2:  # nothing but the header is right
            body = rng.randbytes(rng.randrange(200))
            data = bytearray((len(body) + 4).to_bytes(4, "big") + b"\0\0\0\1" + body)
        case _:  # nothing is right
            data = bytearray(rng.randbytes(rng.randrange(1, 200)))
    return bytes(data)


class FakeTransport(asyncio.Transport):
    """Takes what is written, and can be aborted."""

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert data

    @override
    def abort(self) -> None:
        pass


async def test_refuses_what_the_broker_cannot_take_and_goes_on(broker: ScriptedBroker) -> None:
    async with connected(broker) as connection:
        connection.versions = ApiVersionRanges({ApiKey.HEARTBEAT: (0, 2)})
        with pytest.raises(UnsupportedVersionError, match="MetadataRequest"):
            connection.request(MetadataRequest())
        with pytest.raises(EncodeError):
            connection.request(HeartbeatRequest(group_id="g", group_instance_id="i"))
        assert connection.idle
        assert (await connection.request(HeartbeatRequest(group_id="g"))).error_code == 25


async def test_nothing_is_sent_before_there_is_a_connection() -> None:
    connection = Connection("h", 1, "me", LIMIT, 30_000, set())
    with pytest.raises(DisconnectedError, match="h:1 is not connected"):
        connection.request(HeartbeatRequest(group_id="g"))
    await connection.wait_closed()


async def test_closing_fails_what_is_outstanding_with_the_reason_given(
    broker: ScriptedBroker,
) -> None:
    broker.script(ApiKey.HEARTBEAT, Step(silent=True))
    async with connected(broker) as connection:
        future = connection.request(HeartbeatRequest(group_id="g"))
        abandoned = connection.request(HeartbeatRequest(group_id="g"))
        del abandoned  # nobody asks for its error, and nobody complains
        connection.close(DecodeError("because"))
        connection.close(DecodeError("again"))
        with pytest.raises(DecodeError, match="because"):
            await future


async def throttled_for(connection: Connection, wait_s: float) -> bool:
    """Return whether a response throttles the connection for so long, from its arrival on."""
    clock = asyncio.get_running_loop().time
    asked_s = clock()
    await connection.request(HeartbeatRequest(group_id="g"))
    left_s = connection.throttled_s
    return asked_s + wait_s <= clock() + left_s and left_s <= wait_s


@pytest.mark.parametrize(
    ("versions", "throttled"), [(KAFKA_4_3, True), (KAFKA_1_0, False)], ids=["since v2", "before"]
)
async def test_a_throttle_counts_from_the_version_on_in_which_the_client_waits(
    versions: dict[ApiKey, tuple[int, int]],
    throttled: bool,
) -> None:
    with ScriptedBroker(versions=versions) as broker:
        broker.throttle_ms = 20_000
        async with connected(broker) as connection:
            assert connection.throttled_s == 0
            assert await throttled_for(connection, 20) is throttled


async def test_a_throttle_of_weeks_is_not_believed(broker: ScriptedBroker) -> None:
    broker.throttle_ms = 2**31 - 1
    async with connected(broker) as connection:
        assert await throttled_for(connection, 30)


async def test_correlation_ids_start_over_before_they_overflow(broker: ScriptedBroker) -> None:
    async with connected(broker) as connection:
        connection._last_id = 2**31 - 2
        for _ in range(3):
            await connection.request(HeartbeatRequest(group_id="g"))
        assert connection._last_id == 1
