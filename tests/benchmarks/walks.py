"""Count the functions and files of groupsdk that one operation passes through.

Run it with `python -m tests.benchmarks.walks [NAME ...]`. It measures reading, not speed: the fewer files a request
passes through, and the fewer times it changes from one to another, the easier it is to follow in the source.

- calls: functions of groupsdk that are entered, codecs compiled from declarations included. Comprehensions and
  generator expressions are part of the function around them, and the constructors that the standard library makes for
  dataclasses and named tuples are nobody's source: neither counts.
- files: the source files that these functions stand in. A compiled codec counts as a file of its own, since it stands
  for a declaration that a reader has to open.
- changes of file: how often a call goes to another file than the call before it.

A walk through two parts of the library is followed by a line for each: a Connect worker's own way (connect, http), and
that of the member which it has in its group (membership, drivers, wire; the rebalance, and what the worker asks it). A
module that both use, as the clock, counts for the part that calls it, and in both parts where both do. These
lines share out the calls of the walk; leave none out.

Another walk is a function decorated with `walk` that takes a `Recorder` and does the operation once within
`with recorder.counting():`, as often as it likes: the count with the fewest calls is printed, in which no timer and
no housekeeping ran in between.
"""

import argparse
import asyncio
import contextlib
import json
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final, TypeVar

from typing_extensions import override

import groupsdk
from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.broker import Broker
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.clock import SystemClock
from groupsdk.connect.app import Worker
from groupsdk.connect.errors import NotLeaderError, RebalancingError
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.tasks.task import Connector, Task, TaskContext
from groupsdk.connect.worker import ConnectWorker
from groupsdk.drivers.engine.engine import Engine
from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.history.explain.explaining import Context
from groupsdk.history.read.buckets import Buckets
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.http.settings import HttpSettings
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.events import (
    CallerEvent,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
    Polled,
)
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.settings.config import ConsumerMemberConfig, MemberConfig
from groupsdk.types import ProtocolMetadata
from groupsdk.wire.api import decode_response, encode_request
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.metadata import FindCoordinatorRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupsdk.wire.schema import Request, Response
from tests.support.plain_workers import PlainWorker
from tests.support.scripted_broker import ScriptedBroker


PACKAGE: Final = str(Path(groupsdk.__file__).parent)
_REPEATS: Final = 10
_TOPIC: Final = "orders"
_GROUP: Final = "billing"
_FIND_VERSION: Final = 4
_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_COMMIT_VERSION: Final = 9
_CONSUMER_HEARTBEAT_VERSION: Final = 1
_LENGTH: Final = struct.Struct(">i")
_NOT_CALLS: Final = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")
_COMPILED: Final = ("<read ", "<write ", "<make ")
"""How the names of codecs and constructors begin that groupsdk compiles at run time."""

_PARTS: Final = {
    "its worker": ("connect/", "http/", "wire/connect_protocol.py"),
    "its member": ("member/", "drivers/", "wire/", *_COMPILED),
}
"""Where the code of each part stands, the first that fits; everything else belongs to the part that calls it."""
_OTHER: Final = "the rest"

R = TypeVar("R", bound=Response)


@dataclass(frozen=True, slots=True)
class Count:
    """The calls of one operation, in their order, each as (file, function)."""

    steps: tuple[tuple[str, str], ...]
    parts: tuple[str, ...] = ()
    """For each call the part of the library that it belongs to."""

    def of_part(self, part: str) -> "Count":
        """Return the calls of one part."""
        pairs = zip(self.steps, self.parts, strict=True)
        steps = tuple(step for step, name in pairs if name == part)
        return Count(steps, (part,) * len(steps))

    @property
    def calls(self) -> int:
        """Count the functions entered."""
        return len(self.steps)

    @property
    def files(self) -> Counter[str]:
        return Counter(file for file, _ in self.steps)

    @property
    def changes(self) -> int:
        """Count the calls into another file than that of the call before."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return sum(before[0] != after[0] for before, after in pairs)


class Recorder:
    """Records the calls of groupsdk within `counting`, in this thread or, on request, in others.

    Args:
        in_threads: record threads that are started from now on as well; until `close`.
    """

    def __init__(self, *, in_threads: bool = False) -> None:
        self.counts: list[Count] = []
        self._steps: list[tuple[str, str, str]] = []
        self._is_counting = False
        self._in_threads = in_threads
        if in_threads:
            threading.setprofile(self._record)

    def close(self) -> None:
        """Stop recording threads that are started later."""
        if self._in_threads:
            threading.setprofile(None)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        self._steps = []
        self._is_counting = True
        sys.setprofile(self._record)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._is_counting = False
        steps = self._steps
        self.counts.append(
            Count(tuple((file, name) for file, name, _ in steps), tuple(part for *_, part in steps))
        )

    @property
    def least(self) -> Count:
        """Return the count with the fewest calls.

        Raises:
            ValueError: nothing was recorded.
        """
        return min(self.counts, key=lambda count: count.calls)

    def _record(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._is_counting or event != "call":
            return
        code = frame.f_code
        if code.co_name in _NOT_CALLS:
            return
        file = _file_of(code.co_filename)
        if file is not None:
            self._steps.append((file, code.co_name, _part_of(frame)))


def _part_of(frame: FrameType | None) -> str:
    """Return the part that a call belongs to: that of its file, or else of its nearest caller's."""
    while frame is not None:
        file = _file_of(frame.f_code.co_filename) or ""
        for part, prefixes in _PARTS.items():
            if file.startswith(prefixes):
                return part
        frame = frame.f_back
    return _OTHER


def _file_of(filename: str) -> str | None:
    """Return how a file is named here; None: it is not one of groupsdk."""
    if filename.startswith(PACKAGE):
        return filename.removeprefix(PACKAGE).lstrip("/")
    if filename.startswith(_COMPILED):
        return filename
    return None


Walk = Callable[[Recorder], None]
WALKS: Final[dict[str, Walk]] = {}
"""What can be counted, by name."""


def walk(name: str) -> Callable[[Walk], Walk]:
    """Register a function as the walk of this name."""

    def register(function: Walk) -> Walk:
        WALKS[name] = function
        return function

    return register


# -- the broker: from the bytes of a request to those of its answer


class _Connection:
    """A client in the loop of the broker; what it does itself is not recorded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: Request[R], version: int) -> R:
        """Send a request and return its answer."""
        payload = await self.exchange(encode_request(request, version, 1, "walks"))
        return decode_response(type(request), version, payload)[1]

    async def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return that of the answer, without its length."""
        self._writer.write(frame)
        (size,) = _LENGTH.unpack(await self._reader.readexactly(4))
        return await self._reader.readexactly(size)


@contextlib.asynccontextmanager
async def _connected() -> AsyncIterator[_Connection]:
    """Start a broker with a data directory on this loop, and connect to it."""
    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig.of(
            {"group.initial.rebalance.delay.ms": 0, "listeners": "PLAINTEXT://127.0.0.1:0"}
        )
        broker = Broker(config, data_dir=Path(directory))
        broker.open({_TOPIC: 1})
        try:
            await broker.serve()
            host, port = broker.nodes[1].endpoint("PLAINTEXT")
            reader, writer = await asyncio.open_connection(host, port)
            yield _Connection(reader, writer)
            writer.close()
        finally:
            broker.close()


async def _join(client: _Connection) -> JoinGroupResponse:
    """Make a stable group of one member."""
    await client.ask(FindCoordinatorRequest(coordinator_keys=(_GROUP,)), _FIND_VERSION)
    member_id = ""
    while True:
        protocols = (JoinGroupRequestProtocol("range", b""),)
        request = JoinGroupRequest(_GROUP, 60_000, 60_000, member_id, None, "consumer", protocols)
        joined = await client.ask(request, _JOIN_VERSION)
        if joined.error_code == 0:
            break
        member_id = joined.member_id
    assignments = (SyncGroupRequestAssignment(joined.member_id, b""),)
    sync = SyncGroupRequest(
        group_id=_GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    synced = await client.ask(sync, _SYNC_VERSION)
    if synced.error_code:
        raise RuntimeError(f"SyncGroup was answered with {synced.error_code}")
    return joined


async def _exchanges(
    recorder: Recorder, request_of: Callable[[JoinGroupResponse], Request[Any]], version: int
) -> None:
    async with _connected() as client:
        request = request_of(await _join(client))
        frame = encode_request(request, version, 1, "walks")
        await client.exchange(frame)  # imports and compiles what is needed
        for _ in range(_REPEATS):
            with recorder.counting():
                payload = await client.exchange(frame)
            _check(decode_response(type(request), version, payload)[1])


def _check(answer: Any) -> None:
    topics = getattr(answer, "topics", ())
    codes = [each.error_code for topic in topics for each in topic.partitions]
    if any(codes or [answer.error_code]):
        raise RuntimeError(f"not the way of a request that succeeds: {answer}")


@walk("heartbeat in the broker")
def broker_heartbeat(recorder: Recorder) -> None:
    """A heartbeat of a stable classic member."""

    def request(joined: JoinGroupResponse) -> HeartbeatRequest:
        return HeartbeatRequest(_GROUP, joined.generation_id, joined.member_id)

    asyncio.run(_exchanges(recorder, request, _HEARTBEAT_VERSION))


@walk("commit in the broker")
def broker_commit(recorder: Recorder) -> None:
    """An OffsetCommit of one partition by a stable classic member."""

    def request(joined: JoinGroupResponse) -> OffsetCommitRequest:
        partitions = (OffsetCommitRequestPartition(0, 42),)
        return OffsetCommitRequest(
            group_id=_GROUP,
            generation_id_or_member_epoch=joined.generation_id,
            member_id=joined.member_id,
            topics=(OffsetCommitRequestTopic(_TOPIC, partitions=partitions),),
        )

    asyncio.run(_exchanges(recorder, request, _COMMIT_VERSION))


def _consumer_group_join(group_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=f"member-of-{group_id}",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(_TOPIC,),
        topic_partitions=(),
    )


async def _consumer_group_joins(recorder: Recorder) -> None:
    async with _connected() as client:
        await client.ask(FindCoordinatorRequest(coordinator_keys=(_GROUP,)), _FIND_VERSION)
        # the first one imports and compiles what is needed
        for number in range(_REPEATS + 1):
            request = _consumer_group_join(f"{_GROUP}-{number}")
            frame = encode_request(request, _CONSUMER_HEARTBEAT_VERSION, 1, "walks")
            with recorder.counting():
                payload = await client.exchange(frame)
            _check(decode_response(type(request), _CONSUMER_HEARTBEAT_VERSION, payload)[1])
    del recorder.counts[0]


@walk("KIP-848 join in the broker")
def broker_consumer_group_join(recorder: Recorder) -> None:
    """The ConsumerGroupHeartbeat with which the first member of a new group joins, and is assigned a topic."""
    asyncio.run(_consumer_group_joins(recorder))


async def _consumer_group_heartbeats(recorder: Recorder) -> None:
    version = _CONSUMER_HEARTBEAT_VERSION
    async with _connected() as client:
        await client.ask(FindCoordinatorRequest(coordinator_keys=(_GROUP,)), _FIND_VERSION)
        request = _consumer_group_join(_GROUP)
        answer = await client.ask(request, version)
        _check(answer)
        assert answer.assignment is not None
        beat = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP, member_id=request.member_id, member_epoch=answer.member_epoch
        )
        owned = answer.assignment.topic_partitions
        _check(await client.ask(replace(beat, topic_partitions=owned), version))
        frame = encode_request(beat, version, 1, "walks")
        for _ in range(_REPEATS):
            with recorder.counting():
                payload = await client.exchange(frame)
            _check(decode_response(type(beat), version, payload)[1])


@walk("KIP-848 heartbeat in the broker")
def broker_consumer_group_heartbeat(recorder: Recorder) -> None:
    """A ConsumerGroupHeartbeat of a stable member that says nothing new."""
    asyncio.run(_consumer_group_heartbeats(recorder))


# -- the member: what its engine, and its caller, do


_INTERVAL_MS: Final = 50
_WAIT_S: Final = 30.0
_ACKNOWLEDGES: Final = ("member/consumer/membership.py", "_acknowledged")


def _member_config(servers: str) -> MemberConfig:
    return MemberConfig.of(
        {
            "bootstrap.servers": servers,
            "group.id": _GROUP,
            "heartbeat.interval.ms": _INTERVAL_MS,
            "session.timeout.ms": 10_000,
        }
    )


class _EngineRun:
    """An engine on this loop, and its caller, which posts what `answer` returns for each call."""

    def __init__(self, config: MemberConfig, answer: Callable[[Call], CallerEvent]) -> None:
        self._mailbox = Mailbox()
        self._shown = asyncio.Event()
        self._answer = answer
        self._engine = Engine(config, SystemClock(), self._publish)
        self._running = asyncio.ensure_future(self._engine.run())
        self._engine.post(Polled())

    def _publish(self, view: MemberView) -> None:
        self._mailbox.publish(view)
        self._shown.set()

    async def until(self, condition: Callable[[MemberView], bool]) -> MemberView:
        """Wait for a view, without answering calls."""
        while not condition(self._mailbox.view):
            self._shown.clear()
            await self._shown.wait()
        return self._mailbox.view

    async def join(self) -> None:
        """Answer calls until the assignment is applied."""
        call: Call | None = None
        while not isinstance(call, CompleteJoin):
            call = (await self.until(partial(_has_another_call, call))).call
            assert call is not None
            self._engine.post(self._answer(call))

    async def end(self) -> None:
        self._engine.abort()
        await self._running


def _has_another_call(before: Call | None, view: MemberView) -> bool:
    return view.call not in (None, before)


def _was_heard_after(proven_ms: int | None, view: MemberView) -> bool:
    return view.valid_until_ms != proven_ms


async def _heartbeats(recorder: Recorder, run: _EngineRun) -> None:
    """Record heartbeats of a member that has joined, each from its timer until the view after the response."""
    await run.join()
    while len(recorder.counts) < _REPEATS:
        view = await run.until(lambda view: view.state is MemberState.STABLE)
        proven_ms = view.valid_until_ms
        with recorder.counting():
            await run.until(partial(_was_heard_after, proven_ms))
        steps = recorder.counts[-1].steps
        functions = [function for _, function in steps]
        # the counting may begin after the request was sent, or before the response to the previous one
        if functions[0] != "_on_event" or "_wake_after" not in functions or _ACKNOWLEDGES in steps:
            recorder.counts.pop()
    await run.end()


def _answer_of_work(call: Call) -> CallerEvent:
    match call:
        case PrepareJoin():
            return JoinPrepared(call.call_id, "work", (ProtocolMetadata("even", b""),))
        case AssignGroup():
            return GroupAssigned(call.call_id, {call.generation.member_id: b"all"})
        case CompleteJoin():
            return JoinDelivered(call.call_id)


@walk("heartbeat of a member")
def member_heartbeat(recorder: Recorder) -> None:
    """From the timer of a stable member's engine until the answer to its heartbeat has been handled."""

    async def measured(servers: str) -> None:
        run = _EngineRun(_member_config(servers), _answer_of_work)
        await asyncio.wait_for(_heartbeats(recorder, run), _WAIT_S)

    with ScriptedBroker() as broker:
        asyncio.run(measured(broker.address))


def _answer_of_consumer(call: Call) -> CallerEvent:
    if isinstance(call, CompleteJoin):
        return JoinDelivered(call.call_id)
    subscription = HeartbeatSubscription(frozenset({_TOPIC}))
    return JoinPrepared(call.call_id, "consumer", tuple(subscription.protocols()))


@walk("KIP-848 heartbeat of a member")
def consumer_member_heartbeat(recorder: Recorder) -> None:
    """The same for a member of the consumer protocol, whose heartbeat says nothing new."""
    intervals = {
        "group.consumer.min.heartbeat.interval.ms": _INTERVAL_MS,
        "group.consumer.heartbeat.interval.ms": _INTERVAL_MS,
    }

    async def measured(servers: str) -> None:
        config = ConsumerMemberConfig.of({"bootstrap.servers": servers, "group.id": _GROUP})
        run = _EngineRun(config, _answer_of_consumer)
        await asyncio.wait_for(_heartbeats(recorder, run), _WAIT_S)

    with EmbeddedBroker(intervals, topics={_TOPIC: 1}) as broker:
        asyncio.run(measured(broker.bootstrap_servers))


@walk("rebalance as leader")
def rebalance_as_leader(recorder: Recorder) -> None:
    """From `request_rejoin` until the only member has its assignment: caller's thread and engine's."""
    with ScriptedBroker() as broker:
        both = Recorder(in_threads=True)
        try:
            with PlainWorker(_member_config(broker.address)) as member:
                member.ensure_active_group(_WAIT_S)
                for _ in range(_REBALANCES):
                    epoch = member.snapshot().assignment_epoch
                    with both.counting():
                        member.request_rejoin("walk")
                        member.ensure_active_group(_WAIT_S)
                    if member.snapshot().assignment_epoch == epoch:
                        raise RuntimeError("there was no rebalance")
        finally:
            both.close()
        recorder.counts.extend(both.counts)


# -- a Connect worker: from POST /connectors until the connector's task runs


_CONNECTORS: Final = 40
"""Enough for one that is answered before the worker looks after other things: on a busy machine one of ten is."""
_REBALANCES: Final = 60
"""Likewise: the caller's thread and the engine's may each wait for the other."""


class _Copying(Connector):
    """A connector with one task, which says that it runs and waits for its end."""

    running: ClassVar[threading.Semaphore] = threading.Semaphore(0)

    @override
    def plan(self) -> list[Task]:
        return [Task("all")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        self.running.release()
        context.stop.wait()


def _await_leader(worker: ConnectWorker) -> None:
    """Wait until the worker leads its group: before that it answers 409."""
    while True:
        try:
            worker.admin.put_connector("first", {"connector.class": "_Copying"}).result(_WAIT_S)
        except (NotLeaderError, RebalancingError):
            time.sleep(0.1)
        else:
            break
    if not _Copying.running.acquire(timeout=_WAIT_S):
        raise RuntimeError("no task runs")
    worker.admin.delete_connector("first").result(_WAIT_S)
    while worker.owned:
        time.sleep(0.02)


def _run_connectors(recorder: Recorder, start: Callable[[Worker], ConnectWorker]) -> None:
    """Create connectors one after the other; a worker has one at a time, so that each walk is the same."""
    both = Recorder(in_threads=True)
    app = Worker(_GROUP)
    app.connector(_Copying)
    try:
        worker = start(app)
        with app, RestServer(worker, HttpSettings(port=0)) as server:
            _await_leader(worker)
            for number in range(_CONNECTORS):
                asked = HTTPConnection("127.0.0.1", server.port)
                asked.connect()
                body = json.dumps({"name": f"c{number}", "config": {"connector.class": "_Copying"}})
                with both.counting():
                    asked.request("POST", "/connectors", body, {"content-type": "application/json"})
                    answer = asked.getresponse()
                    answer.read()
                    if answer.status != 201 or not _Copying.running.acquire(timeout=_WAIT_S):
                        raise RuntimeError(f"no task runs; the answer was {answer.status}")
                asked.close()
                worker.admin.delete_connector(f"c{number}").result(_WAIT_S)
                while worker.owned:
                    time.sleep(0.02)
    finally:
        both.close()
    recorder.counts.extend(both.counts)


@walk("connector to task, in a group")
def connector_in_a_group(recorder: Recorder) -> None:
    """From POST /connectors until its task runs, on the only worker of a group: all threads.

    The group rebalances for the connector and for its task; where the second is asked for in time, once for both.
    The broker is a process of its own, and is not counted.
    """
    command = [sys.executable, "-m", "groupsdk", "broker", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stderr is not None
            servers = broker.stderr.readline().rpartition("://")[2].strip()
            settings = {"bootstrap.servers": servers}
            _run_connectors(recorder, lambda app: app.start(settings, url="http://127.0.0.1:1"))
        finally:
            broker.terminate()


@walk("connector to task, alone")
def connector_alone(recorder: Recorder) -> None:
    """From POST /connectors until its task runs, on a worker without a group or a broker, all threads."""
    _run_connectors(recorder, lambda app: app.start_standalone(None))


# -- the history: from a log's file to the files of the tables


@walk("generation in the history")
def generation_in_the_history(recorder: Recorder) -> None:
    """From a segment file with a generation of two members, and a commit of each, to the files of all tables.

    Both stages run in this process; no assignor is replayed.
    """
    with tempfile.TemporaryDirectory() as directory:
        seats = {f"m{number}": Seat(f"client-{number}", {_TOPIC: [number]}) for number in range(2)}
        with LogWriter(Path(directory, "log")) as log:
            log.append(1_000, generation(_GROUP, 1, seats))
            log.append(2_000, *(commit(_GROUP, _TOPIC, number, 42, 2_000) for number in range(2)))
        (task,) = segment_tasks(str(Path(directory, "log")))
        for number in range(_REPEATS):
            buckets = Buckets(f"{directory}/tables-{number}", 1)
            with recorder.counting():
                buckets.read(task)
                buckets.explain(0, Context())


def measure(name: str) -> Count:
    """Take one walk and return its count."""
    recorder = Recorder()
    WALKS[name](recorder)
    return recorder.least


def _row(name: str, count: Count) -> str:
    return f"{name:32}{count.calls:>8}{len(count.files):>8}{count.changes:>18}"


def main(arguments: list[str]) -> None:
    """Print the walks that are named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.walks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(sorted(WALKS))}; all by default")
    parser.add_argument("--calls", action="store_true", help="list the calls, too")
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.names if name not in WALKS]
    if unknown:
        parser.error(f"no walk is called {unknown[0]!r}; there are {', '.join(sorted(WALKS))}")
    print(f"{'':32}{'calls':>8}{'files':>8}{'changes of file':>18}")
    for name in parsed.names or WALKS:
        count = measure(name)
        print(_row(name, count), flush=True)
        if len(set(count.parts) & set(_PARTS)) == len(_PARTS):
            for part in dict.fromkeys(count.parts):
                print(_row(f"  {part}", count.of_part(part)), flush=True)
        if parsed.calls:
            print("\n".join(f"    {file}: {function}" for file, function in count.steps))


if __name__ == "__main__":
    main(sys.argv[1:])
