"""Tests the ends of transactions being written where they belong."""

from typing import Any

from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.coordinator.transactions.metadata import TransactionState
from groupsdk.broker.coordinator.transactions.shard import TransactionCoordinatorShard
from groupsdk.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from groupsdk.wire.schema import Request
from tests.broker.rig import ClusterRig


def ask(rig: ClusterRig, request: Request[Any], version: int) -> Any:
    """Asks the coordinator of x."""
    coordinators = rig.cluster.transactions
    leader = rig.cluster.leader("__transaction_state", coordinators.partition_for("x"))
    assert leader is not None
    runtime = coordinators.runtime_for(leader, "x")
    assert isinstance(runtime, CoordinatorRuntime)
    answers: list[Any] = []
    runtime.submit(request, answers.append, version, "c", "/h", "User:u")
    return answers[0]


def begin(rig: ClusterRig, *partitions: int) -> int:
    """Begins a transaction on t; returns its producer id."""
    started = ask(rig, InitProducerIdRequest("x", 60_000), 4)
    topics = (AddPartitionsToTxnTopic("t", partitions),)
    asked = AddPartitionsToTxnRequest((), "x", started.producer_id, 0, topics)
    ask(rig, asked, 3)
    rig.settle()  # what the start of the coordinator has left to do
    return int(started.producer_id)


def end(rig: ClusterRig, producer_id: int) -> int:
    """Commits it, without what comes after the answer."""
    return int(ask(rig, EndTxnRequest("x", producer_id, 0, True), 4).error_code)


def state(rig: ClusterRig) -> TransactionState:
    runtime = rig.cluster.transactions.find(rig.cluster.transactions.partition_for("x"))
    assert runtime is not None
    shard = runtime.shard
    assert isinstance(shard, TransactionCoordinatorShard)
    view = shard.transaction("x")
    assert view is not None
    return view.state


def test_the_answer_comes_before_the_markers() -> None:
    rig = ClusterRig(topics={"t": 2})
    producer_id = begin(rig, 0, 1)
    assert end(rig, producer_id) == 0
    assert rig.cluster.log("t", 0).log_end_offset == 0
    assert state(rig) is TransactionState.PREPARE_COMMIT
    rig.settle()
    assert [rig.cluster.log("t", each).log_end_offset for each in (0, 1)] == [1, 1]
    assert state(rig) is TransactionState.COMPLETE_COMMIT


def test_a_group_gets_its_marker_too() -> None:
    rig = ClusterRig(topics={"t": 1})
    rig.cluster.internal_topic("__consumer_offsets")
    producer_id = begin(rig, 0)
    ask(rig, AddOffsetsToTxnRequest("x", producer_id, 0, "g"), 3)
    end(rig, producer_id)
    rig.settle()
    assert rig.cluster.log("__consumer_offsets", 3).log_end_offset == 1
    assert state(rig) is TransactionState.COMPLETE_COMMIT


def test_a_deleted_topic_needs_no_marker() -> None:
    rig = ClusterRig(topics={"t": 1})
    producer_id = begin(rig, 0)
    end(rig, producer_id)
    rig.cluster.delete_topics(("t",))
    rig.settle()
    assert state(rig) is TransactionState.COMPLETE_COMMIT


def test_marker_for_an_unreachable_leader_is_retried() -> None:
    rig = ClusterRig(nodes=2, topics={"t": 2})
    producer_id = begin(rig, 0, 1)
    away = rig.nodes[rig.cluster.leader("t", 1) or 0]
    away.running = False
    end(rig, producer_id)
    rig.settle()
    assert state(rig) is TransactionState.PREPARE_COMMIT
    away.running = True
    rig.pass_ms(5_000)
    assert state(rig) is TransactionState.COMPLETE_COMMIT
    assert [rig.cluster.log("t", each).log_end_offset for each in (0, 1)] == [1, 1]


def test_after_a_crash_the_markers_are_written_by_the_next_run() -> None:
    first = ClusterRig(topics={"t": 1})
    end(first, begin(first, 0))
    first.cluster.close()
    second = ClusterRig(store=first.store, files=first.files)
    second.cluster.load_coordinators()
    second.settle()
    assert state(second) is TransactionState.COMPLETE_COMMIT
    assert second.cluster.log("t", 0).log_end_offset == 1


def test_the_markers_of_many_partitions_are_written_in_steps() -> None:
    rig = ClusterRig(topics={"t": 100})
    producer_id = begin(rig, *range(100))
    assert end(rig, producer_id) == 0
    rig.deferred.pop(0)()
    written = [rig.cluster.log("t", each).log_end_offset for each in range(100)]
    assert 0 < sum(written) < 100
    rig.settle()
    assert {rig.cluster.log("t", each).log_end_offset for each in range(100)} == {1}
    assert state(rig) is TransactionState.COMPLETE_COMMIT


def test_markers_are_written_by_the_new_coordinator_alone_if_it_moves_between_steps() -> None:
    rig = ClusterRig(topics={"t": 100}, nodes=2)
    producer_id = begin(rig, *range(100))
    assert end(rig, producer_id) == 0
    rig.deferred.pop(0)()
    partition = rig.cluster.transactions.partition_for("x")
    leader = rig.cluster.leader("__transaction_state", partition)
    assert leader is not None
    rig.cluster.move_leaders({("__transaction_state", partition): 3 - leader})
    rig.settle()
    assert state(rig) is TransactionState.COMPLETE_COMMIT
    ends = [rig.cluster.log("t", each).log_end_offset for each in range(100)]
    assert set(ends[-50:]) == {1}


def test_markers_are_written_once_if_the_coordinator_moves_before_the_first_step() -> None:
    rig = ClusterRig(topics={"t": 3}, nodes=2)
    producer_id = begin(rig, 0, 1, 2)
    assert end(rig, producer_id) == 0
    partition = rig.cluster.transactions.partition_for("x")
    leader = rig.cluster.leader("__transaction_state", partition)
    assert leader is not None
    rig.cluster.move_leaders({("__transaction_state", partition): 3 - leader})
    rig.settle()
    assert state(rig) is TransactionState.COMPLETE_COMMIT
    assert [rig.cluster.log("t", each).log_end_offset for each in range(3)] == [1, 1, 1]
