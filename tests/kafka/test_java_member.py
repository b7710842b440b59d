"""One group of members on Kafka's own AbstractCoordinator (Java) and on ours, in Schema Registry's format."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from typing_extensions import override

from groupsdk import GroupMembers
from groupsdk.testing import LocalKafka
from tests.support.groups import describe_group
from tests.support.java import JavaProgram
from tests.support.workers import Callback, Driven, RecordingMember, eventually


_SOURCE = Path(__file__).parent / "java" / "SrMember.java"
_CLIENTS = "org.apache.kafka:kafka-clients:4.3.1"


def _identity(port: int) -> dict[str, Any]:
    return {
        "version": 1,
        "host": "127.0.0.1",
        "port": port,
        "master_eligibility": True,
        "scheme": "http",
        "leader": False,
    }


class _SrMember(RecordingMember):
    """Elects the smallest URL, as the Java member does."""

    def __init__(self, port: int, **settings: Any) -> None:
        identity = json.dumps(_identity(port)).encode()
        super().__init__(
            protocol_type="sr",
            protocols=[("v0", identity)],
            session_timeout_ms=8_000,
            **settings,
        )

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        self.callbacks.append(
            Callback("perform_assignment", self.generation().generation_id, leader_id)
        )
        identities = {key: json.loads(metadata) for key, metadata in members.items()}
        master = min(identities, key=lambda key: identities[key]["port"])
        told = {
            "version": 1,
            "error": 0,
            "master": master,
            "master_identity": identities[master],
        }
        return dict.fromkeys(members, json.dumps(told).encode())


@dataclass(frozen=True, slots=True)
class _Completed:
    """What a member was told when it last completed a join."""

    generation: int
    member_id: str
    assignment: dict[str, Any]


class _JavaMember:
    """The Java member as a process; used as a context manager."""

    def __init__(self, kafka: LocalKafka, group_id: str, port: int) -> None:
        arguments = [kafka.bootstrap_servers, group_id, "127.0.0.1", str(port)]
        self._program = JavaProgram(_SOURCE, [_CLIENTS], arguments=arguments)
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        self._program.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._program.__exit__(kind, error, trace)

    def completed(self, generation: int) -> _Completed:
        """Wait until it completes a join of this generation or a later one."""
        while True:
            word, _, rest = self._next().partition(" ")
            if word == "complete":
                number, member_id, assignment = rest.split(" ", 2)
                if int(number) >= generation:
                    return _Completed(int(number), member_id, json.loads(assignment))

    def led(self) -> list[int]:
        """Return the generations that it has led, as far as it was heard."""
        return [int(line.split()[1]) for line in self.lines if line.startswith("lead ")]

    def close(self) -> None:
        """Have it leave the group and end."""
        self._program.send("close")
        while self._next() != "closed":
            pass
        assert self._program.wait() == 0

    def kill(self) -> None:
        self.__exit__(None, None, None)

    def rejoin(self) -> None:
        """Have it ask for a rebalance."""
        self._program.send("rejoin")

    def _next(self) -> str:
        line = self._program.receive()
        self.lines.append(line)
        assert not line.startswith("error"), self.lines
        return line


NewPython = Callable[[int], Driven]
NewJava = Callable[[int], _JavaMember]


@pytest.fixture
def new_python(kafka: LocalKafka, group_id: str) -> Iterator[NewPython]:
    """Start a Python member of the test's group with this port."""
    with contextlib.ExitStack() as stack:

        def start(port: int) -> Driven:
            member = _SrMember(port, bootstrap_servers=kafka.bootstrap_servers, group_id=group_id)
            return stack.enter_context(Driven(member))

        yield start


@pytest.fixture
def new_java(kafka: LocalKafka, group_id: str) -> Iterator[NewJava]:
    """Start a Java member of the test's group with this port."""
    with contextlib.ExitStack() as stack:

        def start(port: int) -> _JavaMember:
            return stack.enter_context(_JavaMember(kafka, group_id, port))

        yield start


def _python_completed(driven: Driven, generation: int) -> _Completed:
    """Wait until the Python member completes a join of this generation or a later one."""

    def look() -> _Completed | None:
        snapshot = driven.member.snapshot()
        if not snapshot.stable or snapshot.rejoin_pending:
            return None
        last = driven.member.named("on_join_complete")[-1]
        if last.generation < generation:
            return None
        return _Completed(last.generation, last.member_id, json.loads(last.assignment))

    return eventually(look, lambda: (driven.member.snapshot(), driven.errors))


def _python_led(driven: Driven) -> list[int]:
    return [each.generation for each in driven.member.named("perform_assignment")]


def _same(java: _Completed, python: _Completed) -> None:
    """Check that both are in one generation and were told the same."""
    assert java.generation == python.generation
    assert java.assignment == python.assignment
    assert java.member_id != python.member_id


def test_each_leads_once_and_understands_the_other(
    kafka: LocalKafka, group_id: str, new_java: NewJava, new_python: NewPython
) -> None:
    java = new_java(8081)
    alone = java.completed(0)
    assert alone.assignment["master"] == alone.member_id
    assert alone.assignment["master_identity"] == _identity(8081)

    # Java leads: the Python member comes second, and Kafka keeps the leader it has.
    python = new_python(8082)
    together = java.completed(alone.generation + 1)
    told = _python_completed(python, together.generation)
    _same(together, told)
    assert told.assignment["master"] == together.member_id
    assert java.led()[-1] == together.generation
    assert not _python_led(python)
    seen = describe_group(kafka.bootstrap_servers, group_id)
    assert (seen.state, seen.protocol_type, seen.protocol_name) == ("Stable", "sr", "v0")
    assert seen.member_ids == {together.member_id, told.member_id}
    assert len(set(seen.assignments.values())) == 1

    # A rebalance that the Java member asks for takes the Python member along, and the other way.
    java.rejoin()
    again = java.completed(together.generation + 1)
    _same(again, _python_completed(python, again.generation))

    # Python leads: the Java member leaves, and a new one comes second.
    java.close()
    left = _python_completed(python, again.generation + 1)
    assert left.assignment["master"] == left.member_id
    other = new_java(8080)
    after = other.completed(left.generation + 1)
    told = _python_completed(python, after.generation)
    _same(after, told)
    assert _python_led(python)[-1] == after.generation
    assert not other.led()
    # What Python wrote, Java understood: itself is elected, for its URL is the smallest.
    assert after.assignment["master"] == after.member_id
    assert after.assignment["master_identity"] == _identity(8080)

    python.close()
    assert not python.errors
    last = other.completed(after.generation + 1)
    assert other.led()[-1] == last.generation
    other.close()
    assert describe_group(kafka.bootstrap_servers, group_id).state == "Empty"


def test_each_notices_that_the_other_crashed(new_java: NewJava, new_python: NewPython) -> None:
    python = new_python(8081)
    first = _python_completed(python, 0)
    java = new_java(8082)
    together = java.completed(first.generation + 1)
    _same(together, _python_completed(python, together.generation))

    java.kill()
    alone = _python_completed(python, together.generation + 1)
    assert alone.assignment["master"] == alone.member_id

    other = new_java(8083)
    again = other.completed(alone.generation + 1)
    _same(again, _python_completed(python, again.generation))
    python.crash()
    assert not python.errors
    last = other.completed(again.generation + 1)
    assert last.assignment["master"] == last.member_id
    assert other.led()[-1] == last.generation
    other.close()


def test_three_members_agree_on_every_generation(new_java: NewJava, new_python: NewPython) -> None:
    java = new_java(8082)
    first, second = new_python(8083), new_python(8081)
    latest = java.completed(0)
    # However the three came in, they end in one generation under one master.
    while True:
        told = [_python_completed(each, latest.generation) for each in (first, second)]
        if all(each.generation == latest.generation for each in told):
            break
        latest = java.completed(latest.generation + 1)
    for each in told:
        _same(latest, each)
    assert latest.assignment["master_identity"] == _identity(8081)
    second.close()
    latest = java.completed(latest.generation + 1)
    _same(latest, _python_completed(first, latest.generation))
    assert latest.assignment["master_identity"] == _identity(8082)
    assert not first.errors
    assert not second.errors
