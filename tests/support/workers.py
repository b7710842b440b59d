"""Members for tests: one that records its callbacks, a thread or a process that drives it, a witness."""

import argparse
import contextlib
import json
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from typing_extensions import override

from groupsdk import AbstractCoordinator, Generation, GroupMembers, GroupMembershipOperation
from groupsdk.clock import Deadline, SystemClock
from groupsdk.errors import GroupSdkError
from tests.support.processes import LedgerProcess


T = TypeVar("T")

TIMEOUT_S = 60.0
"""How long a test waits for what has to happen; nothing ever takes that long."""

_LOOK_AGAIN_S = 0.005


def eventually(
    condition: Callable[[], T | None],
    what: Callable[[], object] | str = "",
    timeout_s: float = TIMEOUT_S,
) -> T:
    """Wait until `condition` returns something true, and return that; raises AssertionError after the timeout."""
    deadline = Deadline(SystemClock(), int(timeout_s * 1000))
    while not (value := condition()):
        if deadline.expired:
            detail = what() if callable(what) else what
            raise AssertionError(f"not within {timeout_s} s: {detail}")
        time.sleep(_LOOK_AGAIN_S)
    return value


class OnThread(ABC):
    """Works on a thread of its own while its block lasts."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def _run(self) -> None:
        """Work until `_stop` is set."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Have it end, and wait for that."""
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the thread hangs"


class Gate:
    """Holds a callback until the test opens it, or the with block ends."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        """Set when the callback has got here."""
        self._opened = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()

    def open(self) -> None:
        """Let the callback go on, and whoever comes later."""
        self._opened.set()

    def wait(self) -> None:
        """Be the hook of a callback: wait until the gate is open."""
        self.reached.set()
        if not self._opened.wait(60):
            raise AssertionError("the test never opened the gate")


@dataclass(frozen=True, slots=True)
class Callback:
    """One callback that a member was given."""

    name: str
    generation: int
    member_id: str
    assignment: bytes = b""


class RecordingMember(AbstractCoordinator):
    """Records its callbacks; as the leader it tells each member who leads, who is there, and its number.

    Sessions outlast a machine that stalls for seconds; tests that wait for the end of one set a shorter one by
    `settings`. `hooks` holds by callback name what is to be run in it, and may raise.
    """

    protocol_type = "work"

    def __init__(
        self,
        *,
        protocols: Sequence[tuple[str, bytes]] = (("v0", b""),),
        protocol_type: str = "work",
        **settings: Any,
    ) -> None:
        quick = {
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 100,
            "rebalance_timeout_ms": 30_000,
        }
        super().__init__(**(quick | settings))
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.callbacks: list[Callback] = []
        self.hooks: dict[str, Callable[[], None]] = {}

    @override
    def metadata(self) -> Sequence[tuple[str, bytes]]:
        self._run_hook("metadata")
        return self.protocols

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self.callbacks.append(Callback("on_join_prepare", generation, member_id))
        self._run_hook("on_join_prepare")

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        self.callbacks.append(
            Callback("perform_assignment", self.generation().generation_id, leader_id)
        )
        self._run_hook("perform_assignment")
        return {
            member_id: json.dumps(
                {
                    "leader": leader_id,
                    "protocol": protocol,
                    "size": len(members),
                    "index": index,
                    "told": members[member_id].decode(),
                }
            ).encode()
            for index, member_id in enumerate(members)
        }

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.callbacks.append(Callback("on_join_complete", generation, member_id, assignment))
        self._run_hook("on_join_complete")

    @override
    def on_leave_prepare(self) -> None:
        self.callbacks.append(Callback("on_leave_prepare", -1, ""))
        self._run_hook("on_leave_prepare")

    def named(self, name: str) -> list[Callback]:
        return [callback for callback in list(self.callbacks) if callback.name == name]

    @property
    def assignment(self) -> dict[str, Any]:
        """What the leader told this member last; empty before that."""
        completed = self.named("on_join_complete")
        return dict(json.loads(completed[-1].assignment)) if completed else {}

    def _run_hook(self, name: str) -> None:
        hook = self.hooks.get(name)
        if hook is not None:
            hook()


class Driven:
    """Polls one member on a thread of its own, as a user's main loop does, and keeps what it raised.

    Used as a context manager: the member is closed at the end. The loop ends at an error that is fatal.
    """

    def __init__(self, member: RecordingMember, poll_s: float = 0.2) -> None:
        self.member = member
        self.errors: list[BaseException] = []
        self._poll_s = poll_s
        self._stop = threading.Event()
        self._close: tuple[float, GroupMembershipOperation] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a failure nobody waits for a broker that may not be there.
        self.close(0.5 if kind is not None else 5.0)

    def close(
        self,
        timeout_s: float = 5.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """End the loop and close the member on its thread."""
        if self._close is None:
            self._close = (timeout_s, operation)
        self._stop.set()
        self.member.wakeup()
        self._thread.join(timeout_s + 20)
        assert not self._thread.is_alive(), "the driving thread hangs"

    def crash(self) -> None:
        """Fall silent: no leave is sent."""
        self.close(1.0, GroupMembershipOperation.REMAIN_IN_GROUP)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.member.poll(self._poll_s)
            except GroupSdkError as error:
                self.errors.append(error)
                if error.fatal:
                    self._stop.wait()
            except BaseException as error:  # noqa: BLE001  # for the test to look at
                self.errors.append(error)
        timeout_s, operation = self._close or (5.0, GroupMembershipOperation.DEFAULT)
        try:
            self.member.close(timeout_s, operation)
        except BaseException as error:  # noqa: BLE001  # for the test to look at
            self.errors.append(error)


def stable_generation(members: Sequence[RecordingMember]) -> int | None:
    """Return the generation that these members, and no others, are stable in; None while they are not."""
    snapshots = [member.snapshot() for member in members]
    generations = {snapshot.generation.generation_id for snapshot in snapshots}
    ready = all(snapshot.stable and not snapshot.rejoin_pending for snapshot in snapshots)
    if not ready or len(generations) != 1:
        return None
    sizes = {member.assignment.get("size") for member in members}
    return generations.pop() if sizes == {len(members)} else None


def await_active(driven: Driven) -> int:
    """Wait until the member has taken up an assignment, and return its generation."""

    def look() -> tuple[int] | None:
        snapshot = driven.member.snapshot()
        ready = snapshot.stable and not snapshot.rejoin_pending
        return (snapshot.generation.generation_id,) if ready else None

    return eventually(look, lambda: _tell((driven,)))[0]


def await_stable(*driven: Driven, timeout_s: float = TIMEOUT_S) -> int:
    """Wait until the members are stable together, alone, and return their generation."""
    members = [each.member for each in driven]

    def look() -> tuple[int] | None:
        generation = stable_generation(members)
        return None if generation is None else (generation,)

    (generation,) = eventually(look, lambda: _tell(driven), timeout_s)
    return generation


def _tell(driven: Sequence[Driven]) -> str:
    return "\n".join(
        f"{each.member.snapshot()} errors={each.errors} callbacks={each.member.callbacks[-5:]}"
        f" events={[event.summary() for event in each.member.events()[-3:]]}"
        for each in driven
    )


class Witness(OnThread):
    """Reads again and again, on one thread, which generation each member would act under.

    Since it reads one after the other, what it saw is in order: once one member was seen in a generation, no
    member may be seen in an older one (invariants 4 and 7).
    """

    def __init__(self, *members: AbstractCoordinator) -> None:
        super().__init__()
        self._members = members
        self.seen: list[tuple[int, int, Generation | None]] = []
        """When, which member, and what it would act under; changes only."""

    def check(self) -> None:
        """Fail if a member would have acted under a generation older than one seen before."""
        newest = -1
        for number, (at_ms, member, generation) in enumerate(list(self.seen)):
            if generation is None:
                continue
            assert generation.generation_id >= newest, (
                f"entry {number}: at {at_ms} ms member {member} would act under {generation} after"
                f" generation {newest} was acted under: {self.seen[max(0, number - 10) : number + 1]}"
            )
            newest = generation.generation_id

    @override
    def _run(self) -> None:
        clock = SystemClock()
        last: dict[int, Generation | None] = {}
        while not self._stop.wait(0.001):
            for index, member in enumerate(self._members):
                generation = member.generation_if_stable()
                # An unchanged one is noted again where another's came in between, for the order counts.
                if index not in last or last[index] != generation or self._overtaken(generation):
                    self.seen.append((clock.now_ms(), index, generation))
                    last[index] = generation

    def _overtaken(self, generation: Generation | None) -> bool:
        if generation is None or not self.seen:
            return False
        latest = self.seen[-1][2]
        return latest is not None and latest.generation_id > generation.generation_id


# A worker in a process of its own, which a test can stop and kill.


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a worker's ledger."""

    kind: str
    """"acting", "idle", "error" or a callback's name."""
    at_ms: int
    """The machine's clock, the same for all processes; of an act: just before the worker asked if it may."""
    generation: int
    member_id: str
    text: str = ""
    """The error, or of "on_join_complete" how many members the group has."""


class WorkerProcess(LedgerProcess):
    """Runs `main` below as a process."""

    def __init__(self, ledger: Path, **settings: Any) -> None:
        super().__init__("tests.support.workers", ledger, json.dumps(settings))

    def terminate(self) -> int:
        """Ask it to end (SIGTERM) and return its exit status."""
        return self.send(signal.SIGTERM)

    def ledger(self) -> list[Entry]:
        """Return the entries that it has written so far."""
        return [Entry(**line) for line in self.lines()]

    def acts(self) -> list[Entry]:
        """Return when it acted, and under which generation."""
        return [entry for entry in self.ledger() if entry.kind == "acting"]


class _LedgerMember(RecordingMember):
    """Writes its callbacks into the ledger, each assignment with the size of the group."""

    def __init__(self, write: Callable[..., None], **settings: Any) -> None:
        super().__init__(**settings)
        self._write = write

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self._write("on_join_prepare", SystemClock().now_ms(), generation, member_id)

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        size = str(json.loads(assignment)["size"])
        self._write("on_join_complete", SystemClock().now_ms(), generation, member_id, size)


@contextlib.contextmanager
def _terminated() -> Iterator[threading.Event]:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    yield stop


def main(arguments: Sequence[str] | None = None) -> None:
    """Work as a member until SIGTERM or Ctrl-C: poll, ask whether it may act, write down what it did."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger")
    parser.add_argument("settings", type=json.loads)
    options = parser.parse_args(arguments)
    clock = SystemClock()
    with (
        Path(options.ledger).open("a", buffering=1, encoding="utf-8") as file,
        _terminated() as stop,
    ):

        def write(kind: str, at_ms: int, generation: int, member_id: str, text: str = "") -> None:
            line = {
                "kind": kind,
                "at_ms": at_ms,
                "generation": generation,
                "member_id": member_id,
                "text": text,
            }
            file.write(json.dumps(line) + "\n")

        with (
            contextlib.suppress(KeyboardInterrupt),
            _LedgerMember(write, **options.settings) as member,
        ):
            while not stop.is_set():
                try:
                    member.poll(0.01)
                except GroupSdkError as error:
                    write("error", clock.now_ms(), -1, "", f"{type(error).__name__}: {error}")
                    if error.fatal:
                        stop.wait(0.05)
                # Stamped before the question: what lies between the answer and the act is the business of
                # a fence at whatever is acted upon, not of a member.
                now_ms = clock.now_ms()
                generation = member.generation_if_stable()
                if generation is None:
                    write("idle", now_ms, member.generation().generation_id, member.member_id())
                else:
                    write("acting", now_ms, generation.generation_id, generation.member_id)


if __name__ == "__main__":
    main()
