"""Holds what a worker joins with, and what it makes of assignments."""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from textwrap import dedent
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import ManualClock
from groupsdk.connect.group import coordinator, herder
from groupsdk.connect.group.coordinator import ConnectCoordinator
from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.errors import ConfigError
from groupsdk.types import GroupMembers, GroupMembershipOperation
from groupsdk.wire.connect_protocol import (
    CONFIG_MISMATCH,
    ConnectAssignment,
    ConnectorTaskId,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from tests.connect.workers import eventually


A0, A1 = ConnectorTaskId("a", 0), ConnectorTaskId("a", 1)
CONFIGS = ClusterConfigState(12, {"a": {}}, {A0: {}, A1: {}}, {"a": 2})


class Listener:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_assigned(self, assignment: ConnectAssignment, generation: int) -> None:
        self.told.append((assignment, generation))

    def on_revoked(self, work: Work) -> None:
        self.told.append(work)


class Rig:
    """A coordinator that nobody connects."""

    def __init__(self, **options: Any) -> None:
        self.listener = Listener()
        self.configs = CONFIGS
        settings = {"bootstrap.servers": "nowhere:9092", "group.id": "g"}
        self.coordinator = ConnectCoordinator(
            settings,
            listener=self.listener,
            configs=lambda: self.configs,
            url="http://w:8083",
            clock=ManualClock(5_000),
            **options,
        )

    def complete(self, given: ConnectAssignment, protocol: str = "sessioned") -> None:
        version = {"default": 0, "compatible": 1, "sessioned": 2}[protocol]
        self.coordinator.on_join_complete(3, "me", protocol, encode_assignment(given, version))


def assigned(*members: str, **options: Any) -> dict[str, ConnectAssignment]:
    """Have one lead; all members have nothing, and know the configurations."""
    rig = Rig(**options)
    rig.coordinator.metadata()
    state = encode_metadata(WorkerState("http://x", 12))
    plan = rig.coordinator.perform_assignment(
        "me", "sessioned", GroupMembers(dict.fromkeys(members, state))
    )
    return {member: decode_assignment(data) for member, data in plan.items()}


@pytest.mark.parametrize(
    ("mode", "offered"),
    [
        ("eager", ["default"]),
        ("compatible", ["compatible", "default"]),
        ("sessioned", ["sessioned", "compatible", "default"]),
    ],
)
def test_each_mode_offers_what_kafkas_workers_offer(mode: str, offered: list[str]) -> None:
    given = Rig(mode=mode).coordinator.metadata()
    assert [each.name for each in given] == offered
    assert given[-1].metadata.hex().startswith("0000000d687474703a2f2f773a38303833")


def test_connect_metadata_has_the_offset_and_the_current_assignment() -> None:
    rig = Rig()
    rig.complete(ConnectAssignment(leader="me", offset=12, connectors=("a",), tasks=(A0,)))
    told = decode_metadata(rig.coordinator.metadata()[0].metadata)
    assert told.offset == 12
    assert told.assignment is not None
    assert (told.assignment.connectors, told.assignment.tasks) == (("a",), (A0,))


def test_increments_add_up_and_what_is_revoked_stops_first() -> None:
    rig = Rig()
    rig.complete(ConnectAssignment(leader="me", offset=12, connectors=("a",), tasks=(A0,)))
    rig.listener.told.clear()
    rig.complete(
        ConnectAssignment(leader="me", offset=12, tasks=(A1,), revoked_tasks=(A0,), delay_ms=40)
    )
    revoked, (whole, generation) = rig.listener.told
    assert revoked == Work((), (A0,))
    assert (whole.connectors, whole.tasks, generation) == (("a",), (A1,), 3)
    assert whole.revoked_tasks == (A0,)
    assert whole.delay_ms == 40


def test_an_eager_assignment_replaces_everything_and_a_rebalance_stops_all() -> None:
    rig = Rig(mode="eager")
    rig.complete(ConnectAssignment(offset=12, tasks=(A0,)), "default")
    rig.coordinator.on_join_prepare(3, "me")
    assert rig.listener.told[-1] == Work((), (A0,))
    rig.complete(ConnectAssignment(offset=12, tasks=(A1,)), "default")
    assert rig.listener.told[-1][0].tasks == (A1,)


def test_a_cooperative_rebalance_stops_nothing_unless_the_membership_is_lost() -> None:
    rig = Rig()
    rig.complete(ConnectAssignment(offset=12, tasks=(A0,)))
    rig.listener.told.clear()
    rig.coordinator.on_join_prepare(3, "me")
    assert rig.listener.told == []
    rig.coordinator.on_join_prepare(-1, "")
    assert rig.listener.told == [Work((), (A0,))]
    assert not rig.coordinator.holds_work
    assert decode_metadata(rig.coordinator.metadata()[0].metadata).assignment is None


def test_before_it_leaves_everything_stops() -> None:
    rig = Rig()
    rig.complete(ConnectAssignment(offset=12, connectors=("a",), tasks=(A0,)))
    rig.coordinator.on_leave_prepare()
    assert rig.listener.told[-1] == Work(("a",), (A0,))


def test_the_leader_shares_out_what_is_configured() -> None:
    plan = assigned("me", "you")
    assert plan["me"].connectors == ("a",)
    assert [plan["me"].tasks, plan["you"].tasks] == [(A0,), (A1,)]
    assert all(each.leader == "me" and each.offset == 12 for each in plan.values())


def test_a_leader_that_lags_behind_reads_again_or_has_all_join_again() -> None:
    rig = Rig()
    rig.coordinator.metadata()
    members = GroupMembers(
        {"me": encode_metadata(WorkerState("", 12)), "you": encode_metadata(WorkerState("", 13))}
    )
    for data in rig.coordinator.perform_assignment("me", "sessioned", members).values():
        given = decode_assignment(data)
        assert (given.error, given.offset, given.tasks) == (CONFIG_MISMATCH, 13, ())
    # it has read on meanwhile, further than any other
    rig.configs = replace(CONFIGS, offset=15)
    for data in rig.coordinator.perform_assignment("me", "sessioned", members).values():
        given = decode_assignment(data)
        assert (given.error, given.offset) == (0, 15)


def test_nothing_of_a_failed_assignment_is_held() -> None:
    rig = Rig()
    rig.complete(ConnectAssignment(error=CONFIG_MISMATCH, offset=13))
    assert not rig.coordinator.holds_work
    assert decode_metadata(rig.coordinator.metadata()[0].metadata).assignment is None


def test_static_members_and_unknown_modes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"connect\.protocol must be one of eager, compatible"):
        Rig(mode="lazy")
    with pytest.raises(ConfigError, match=r"group\.instance\.id"):
        ConnectCoordinator(
            {"bootstrap.servers": "x", "group.id": "g", "group.instance.id": "i"},
            listener=Listener(),
            configs=lambda: CONFIGS,
        )


def test_outside_of_a_group_it_leads_nothing() -> None:
    coordinator = Rig().coordinator
    assert not coordinator.is_leader
    assert coordinator.leader_url is None
    assert not coordinator.holds_for(0)


MANY = ClusterConfigState(12, {"a": {}, "b": {}, "c": {}}, {}, {"a": 5, "b": 4, "c": 3})


def documented_worker() -> Any:
    """The class in the docstring of `ConnectCoordinator`."""
    code = (ConnectCoordinator.__doc__ or "").partition("::\n")[2]
    names: dict[str, Any] = {**vars(coordinator), **vars(herder)}
    exec(dedent(code), names)
    return names["OwnWorker"]


def shared_out(workers: Sequence[Any]) -> bool:
    """Poll each worker; returns whether all work has exactly one owner, and each worker a share."""
    for worker in workers:
        worker.poll()
    running = [worker.running for worker in workers]
    owners = Counter(item for work in running for item in (*work.connectors, *work.tasks))
    everything = MANY.work()
    return all(running) and owners == Counter((*everything.connectors, *everything.tasks))


def settled_member(workers: Sequence[Any], *, leads: bool) -> Any:
    """A worker that leads or follows a group whose work is shared out; None: not yet."""
    if not shared_out(workers):
        return None
    return next((each for each in workers if each.group.is_leader is leads), None)


@pytest.mark.parametrize("max_delay_ms", [0, 300])
def test_documented_workers_share_everything_after_a_join_a_leave_and_a_kill(
    max_delay_ms: int,
) -> None:
    with EmbeddedBroker() as broker, ExitStack() as stack:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "session.timeout.ms": 2_000,
            "heartbeat.interval.ms": 100,
        }
        workers: list[Any] = []
        for _ in range(4):
            workers.append(documented_worker()(settings, lambda: MANY, max_delay_ms))
            stack.callback(workers[-1].group.close)
            eventually(lambda: shared_out(workers))
        workers.pop(1).group.close()
        eventually(lambda: shared_out(workers))
        # a follower and the leader are killed: the group notices when their sessions expire
        for leads in (False, True):
            killed = eventually(partial(settled_member, workers, leads=leads))
            killed.group.close(operation=GroupMembershipOperation.REMAIN_IN_GROUP)
            workers.remove(killed)
            eventually(lambda: shared_out(workers))
