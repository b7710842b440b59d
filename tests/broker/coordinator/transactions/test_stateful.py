"""Tests random histories: many producers, failures and crashes, in virtual time."""

from collections.abc import Callable
from random import Random

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.transactions.driving import TV1, TV2
from tests.broker.coordinator.transactions.world import Client, CrashError, World
from tests.support.cases import each_case


CLIENTS = 5
clients = st.integers(0, CLIENTS - 1)
places = st.tuples(st.just("t"), st.integers(0, 2))
retriable = st.sampled_from(
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
    ]
)


class Histories(RuleBasedStateMachine):
    """Five producers share two transactional ids, so that they fence each other.

    Those of one id speak the same generation of the protocol: where they do not, a fenced one may repeat its
    EndTxn (version 5) after its successor ended a transaction without the bump, and be let in; Kafka does so.
    """

    @initialize(
        version=st.sampled_from([TV1, TV2]),
        generations=st.lists(st.sampled_from([TV1, TV2]), min_size=2, max_size=2),
        mixed=st.booleans(),
    )
    def start(self, version: int, generations: list[int], mixed: bool) -> None:
        config = TransactionConfig(
            transaction_version=2 if mixed or version == TV2 else 1,
            transactional_id_expiration_ms=100_000_000,
        )
        self.world = World(config)
        self.clients = [
            Client("xy"[number % 2], generations[number % 2] if mixed else version)
            for number in range(CLIENTS)
        ]

    @rule(client=clients, goes_on=st.booleans())
    def initialize_producer(self, client: int, goes_on: bool) -> None:
        self._attempt(lambda: self.world.initialize(self.clients[client], goes_on=goes_on))

    @rule(client=clients, place=places, adds=st.integers(0, 5))
    def write(self, client: int, place: tuple[str, int], adds: int) -> None:
        self._attempt(lambda: self.world.write(self.clients[client], place, adds=adds > 0))

    @rule(client=clients, commit=st.booleans(), again=st.booleans())
    def end(self, client: int, commit: bool, again: bool) -> None:
        self._attempt(lambda: self.world.finish(self.clients[client], commit=commit, again=again))

    @rule()
    def write_markers(self) -> None:
        self._attempt(self.world.write_markers)

    @precondition(lambda self: self.world.markers)
    @rule(error=retriable, only=st.integers(0, 2))
    def fail_markers(self, error: ErrorCode, only: int) -> None:
        outcomes = {("t", each): error if each == only else ErrorCode.NONE for each in range(3)}
        self._attempt(lambda: self.world.write_markers(outcomes))

    @rule(milliseconds=st.sampled_from([50, 1_000, 30_000, 70_000, 4_000_000]))
    def wait(self, milliseconds: int) -> None:
        self._attempt(lambda: self.world.wait(milliseconds))

    @rule(name=st.sampled_from("xy"), epoch=st.sampled_from([32_764, 32_765, 32_766]))
    def lift(self, name: str, epoch: int) -> None:
        self._attempt(lambda: self.world.lift(name, epoch))

    @rule(
        error=st.sampled_from(
            [None, None, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]
        )
    )
    def disk(self, error: ErrorCode | None) -> None:
        self.world.failing = error

    @rule()
    def crash(self) -> None:
        self._attempt(self.world.restart)

    @rule(records=st.integers(1, 5))
    def crash_soon(self, records: int) -> None:
        self.world.crash_at = len(self.world.log) + records

    @invariant()
    def holds(self) -> None:
        self.world.check()

    @override
    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except CrashError:
            self.world.restart()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@each_case("seed", range(60))
def test_histories_with_more_transactions_in_them(seed: int) -> None:
    # Chosen with weights, so that most producers get somewhere: what hypothesis rarely does.
    random = Random(seed)
    versions = random.choice([(TV1, TV1), (TV2, TV2), (TV1, TV2)])
    bumps = TV2 in versions
    world = World(
        TransactionConfig(
            transaction_version=2 if bumps else 1, transactional_id_expiration_ms=100_000_000
        )
    )
    producers = [Client("xy"[number % 2], versions[number % 2]) for number in range(4)]
    failures = [None, None, None, ErrorCode.NOT_ENOUGH_REPLICAS]

    def fail_a_marker(client: Client) -> None:
        reached = {("t", each): ErrorCode.NONE for each in range(3)}
        world.write_markers(reached | {("t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER})

    def change_disk(client: Client) -> None:
        world.failing = random.choice(failures)

    def crash_soon(client: Client) -> None:
        world.crash_at = len(world.log) + random.randint(1, 4)

    steps: list[Callable[[Client], None]] = [
        lambda client: world.initialize(client, goes_on=False),
        lambda client: world.initialize(client, goes_on=True),
        lambda client: world.finish(client, commit=True, again=True),
        lambda client: world.wait(random.choice((50, 1_000, 70_000, 4_000_000))),
        lambda client: world.lift(client.transactional_id, random.randint(32_764, 32_766)),
        fail_a_marker,
        change_disk,
        crash_soon,
    ]
    steps += 8 * [
        lambda client: world.write(client, ("t", random.randrange(3)), adds=random.random() < 0.9)
    ]
    steps += 4 * [lambda client: world.finish(client, commit=random.random() < 0.6)]
    steps += 5 * [lambda client: world.write_markers()]
    for _ in range(120):
        try:
            random.choice(steps)(random.choice(producers))
        except CrashError:
            world.restart()
        world.check()
    world.settle()
