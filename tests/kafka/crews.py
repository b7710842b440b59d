"""Processes that are members of one group, whatever its kind: started behind a proxy or not, and what each may act on."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override

from groupsdk.clock import SystemClock
from groupsdk.testing import LocalKafka
from tests.kafka.migrating_group import look
from tests.support.consumers import ConsumerProcess, Group, check_one_owner_at_a_time
from tests.support.groups import describe_group
from tests.support.processes import LedgerProcess
from tests.support.proxy import FaultProxy
from tests.support.topics import create_topic
from tests.support.workers import WorkerProcess, eventually


PARTITIONS: Final = 4
KINDS: Final = ("member", "classic", "consumer")
"""A member with work of its own, and consumers of both group protocols."""

ProcessT = TypeVar("ProcessT", bound=LedgerProcess)


class Crew(ABC, Generic[ProcessT]):
    """Processes of a group, which are killed at the end.

    Args:
        start_process: start a process with its ledger; takes settings in the spelling of keywords.
    """

    def __init__(self, start_process: Callable[..., ProcessT], directory: Path) -> None:
        self.processes: list[ProcessT] = []
        self._start_process = start_process
        self._directory = directory
        self._stack = ExitStack()

    def start(self, way: FaultProxy | None = None, **settings: Any) -> ProcessT:
        """Start one more process, whose way to the broker may be one that can fail."""
        if way is not None:
            settings["bootstrap_servers"] = way.bootstrap_servers
        made = self._start_process(self._directory / f"{len(self.processes)}", **settings)
        self._stack.enter_context(made)
        self.processes.append(made)
        return made

    def close(self) -> None:
        self._stack.close()

    def start_pair(self, way: FaultProxy | None = None) -> tuple[ProcessT, ProcessT]:
        """Start two processes, the first one over `way`, and wait until they share the work."""
        pair = self.start(way), self.start()
        self.await_share(*pair)
        return pair

    def await_share(self, *processes: ProcessT) -> None:
        """Wait until these have gone round once more, and share the work among them alone."""
        now_ms = SystemClock().now_ms()
        eventually(
            lambda: (
                all(self.last_turn_ms(each) >= now_ms for each in processes)
                and self.have_shared(processes)
            ),
            lambda: [each.lines()[-5:] for each in processes],
        )

    def await_turns(self, process: ProcessT, count: int) -> None:
        """Wait until its loop went round some more times."""
        before = len(process.lines())
        eventually(lambda: len(process.lines()) >= before + count)

    def resume(self, process: ProcessT) -> int:
        """Let a paused process run on, and return the time just before."""
        now_ms = SystemClock().now_ms()
        process.resume()
        return now_ms

    @abstractmethod
    def last_turn_ms(self, process: ProcessT) -> int:
        """Return when its loop went round last."""

    @abstractmethod
    def have_shared(self, processes: tuple[ProcessT, ...]) -> bool:
        """Return whether the last turns of these are those of a group of just them."""

    @abstractmethod
    def acts_under(self, process: ProcessT) -> Hashable:
        """Return what gives it the right to act; another one once that was lost and given again."""

    @abstractmethod
    def acted_since(self, process: ProcessT, at_ms: int) -> bool:
        """Return whether it acted since then."""

    @abstractmethod
    def check_lost_at(self, process: ProcessT, resumed_ms: int) -> None:
        """Check that it acted on nothing that it had before it was stopped, once it ran again."""

    @abstractmethod
    def check(self) -> None:
        """Check that no two ever acted on the same at once."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether the coordinator has no members of the group."""


class MemberCrew(Crew[WorkerProcess]):
    """Members of a group of their own kind, which act under a generation."""

    def __init__(self, kafka: LocalKafka, group_id: str, session_ms: int, directory: Path) -> None:
        settings = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group_id,
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": 100,
            "rebalance_timeout_ms": 5_000,
            "socket_connection_setup_timeout_ms": 500,
            "retry_backoff_ms": 20,
            "retry_backoff_max_ms": 200,
        }
        super().__init__(lambda ledger, **own: WorkerProcess(ledger, **(settings | own)), directory)
        self._address = kafka.bootstrap_servers
        self._group_id = group_id

    @override
    def last_turn_ms(self, process: WorkerProcess) -> int:
        ledger = process.ledger()
        return ledger[-1].at_ms if ledger else 0

    @override
    def have_shared(self, processes: tuple[WorkerProcess, ...]) -> bool:
        ledgers = [each.ledger() for each in processes]
        if any(not ledger or ledger[-1].kind != "acting" for ledger in ledgers):
            return False
        sizes = {
            [entry.text for entry in ledger if entry.kind == "on_join_complete"][-1]
            for ledger in ledgers
        }
        return len({ledger[-1].generation for ledger in ledgers}) == 1 and sizes == {
            str(len(processes))
        }

    @override
    def acts_under(self, process: WorkerProcess) -> int:
        acts = process.acts()
        return acts[-1].generation if acts else -1

    @override
    def acted_since(self, process: WorkerProcess, at_ms: int) -> bool:
        return any(act.at_ms >= at_ms for act in process.acts())

    @override
    def check_lost_at(self, process: WorkerProcess, resumed_ms: int) -> None:
        acts = process.acts()
        old = max(act.generation for act in acts if act.at_ms < resumed_ms)
        assert all(act.generation > old for act in acts if act.at_ms >= resumed_ms)
        # It was told that all is lost before it was given anything new.
        told = [
            (entry.kind, entry.generation)
            for entry in process.ledger()
            if entry.kind.startswith("on_join") and entry.at_ms >= resumed_ms
        ]
        assert told[0] == ("on_join_prepare", -1)

    @override
    def check(self) -> None:
        """Check that nobody acted under a generation once anybody had acted under a later one (invariant 4)."""
        acts = sorted((act.at_ms, act.generation) for each in self.processes for act in each.acts())
        assert acts, "nobody acted"
        for (at_ms, earlier), (late_ms, later) in itertools.pairwise(acts):
            assert earlier <= later, f"{later} acted under at {late_ms} ms, {earlier} at {at_ms} ms"

    @override
    def is_empty(self) -> bool:
        return describe_group(self._address, self._group_id).state == "Empty"


class ConsumerCrew(Crew[ConsumerProcess]):
    """Consumers of a topic, which act on partitions."""

    def __init__(
        self, protocol: str, kafka: LocalKafka, group_id: str, session_ms: int, directory: Path
    ) -> None:
        address, topic = kafka.bootstrap_servers, f"t-{group_id}"
        create_topic(address, topic, PARTITIONS)
        group = Group(protocol, group_id, topic, address, address, session_ms, heartbeat_ms=100)
        group.configure()
        super().__init__(lambda ledger, **own: ConsumerProcess(ledger, group, **own), directory)
        self._group = group

    @override
    def last_turn_ms(self, process: ConsumerProcess) -> int:
        turns = process.turns()
        return turns[-1].at_ms if turns else 0

    @override
    def have_shared(self, processes: tuple[ConsumerProcess, ...]) -> bool:
        acting = [each.acts_on() for each in processes]
        size = PARTITIONS // len(processes)
        return [len(each) for each in acting] == [size] * len(processes) and (
            frozenset().union(*acting) == frozenset(range(PARTITIONS))
        )

    @override
    def acts_under(self, process: ConsumerProcess) -> frozenset[tuple[int, int]]:
        return frozenset(process.turns()[-1].tenures.items())

    @override
    def acted_since(self, process: ConsumerProcess, at_ms: int) -> bool:
        return any(turn.at_ms >= at_ms and turn.tenures for turn in process.turns())

    @override
    def check_lost_at(self, process: ConsumerProcess, resumed_ms: int) -> None:
        turns = process.turns()
        stopped = list(itertools.takewhile(lambda turn: turn.at_ms < resumed_ms, turns))
        old = set(stopped[-1].tenures.items())
        assert not any(old & set(turn.tenures.items()) for turn in turns[len(stopped) :])

    @override
    def check(self) -> None:
        check_one_owner_at_a_time(*self.processes)

    @override
    def is_empty(self) -> bool:
        return not look(self._group.address, self._group.group_id).shares


AnyCrew = Crew[Any]


@contextmanager
def crew_of(
    kind: str, kafka: LocalKafka, group_id: str, session_ms: int, directory: Path
) -> Iterator[AnyCrew]:
    """Make a crew of one of `KINDS`; at the end, no two may ever have acted on the same at once."""
    crew: AnyCrew = (
        MemberCrew(kafka, group_id, session_ms, directory)
        if kind == "member"
        else ConsumerCrew(kind, kafka, group_id, session_ms, directory)
    )
    try:
        yield crew
        crew.check()
    finally:
        crew.close()
