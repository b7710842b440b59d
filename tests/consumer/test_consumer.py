"""Test the consumer as a whole, in virtual time."""

import gc
import logging
import threading
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition as NativePartition
from pytest_mock import MockerFixture
from typing_extensions import override

from assignors import RangeAssignor
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    MemberReport,
    TopicPartition,
)
from groupsdk.assignment.subscriptions import decode_subscriptions, encode_assignments
from groupsdk.consumer import ConsumerConfig, GroupConsumer
from groupsdk.errors import (
    AssignmentError,
    CommitFailedError,
    ConcurrentUseError,
    ConfigError,
    EngineError,
    MemberClosedError,
    NoGenerationError,
    NoOffsetError,
)
from groupsdk.member.state import MemberState
from groupsdk.settings.librdkafka import LibrdkafkaLog
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.consumer.rig import MEMBER_ID, Bench, FakeNative, Listener, partitions
from tests.member.driving import beaten
from tests.support.scripted_broker import refusing_port


def test_records_of_all_partitions_come_once(bench: Bench) -> None:
    bench.fill(2)
    assert bench.read() == [f"t-{n}@{i}" for n in range(3) for i in range(2)]
    assert bench.read(timeout=0) == []
    assert bench.consumer.assignment() == partitions("t-0", "t-1", "t-2")


def test_reading_goes_on_at_committed_offsets_and_else_where_the_reset_says() -> None:
    bench = Bench(auto_offset_reset="latest")
    bench.group.offsets[TopicPartition("t", 0)] = 3
    bench.fill(5)
    bench.consumer.subscribe(["t"])
    assert bench.read() == ["t-0@3", "t-0@4"]
    bench.fill(1)
    assert bench.read() == ["t-0@5", "t-1@5", "t-2@5"]


def test_without_a_reset_a_missing_offset_is_an_error_until_somebody_seeks() -> None:
    bench = Bench(auto_offset_reset="none")
    bench.fill(5)
    bench.group.offsets[TopicPartition("t", 0)] = 4
    bench.consumer.subscribe("t")
    with pytest.raises(NoOffsetError, match=r"t-1, t-2.*seek"):
        bench.read()
    for number in (1, 2):
        bench.consumer.seek(NativePartition("t", number, 3))
    assert bench.read() == ["t-0@4", "t-1@3", "t-1@4", "t-2@3", "t-2@4"]


def test_poll_and_iteration_give_one_record_at_a_time(bench: Bench) -> None:
    bench.fill(3, "t-1")
    message = bench.consumer.poll(1)
    assert message is not None
    assert message.value() == b"t-1@0"
    got = []
    for each in bench.consumer:
        got.append(each.value())
        if len(got) == 2:
            bench.consumer.wakeup()
    assert got == [b"t-1@1", b"t-1@2"]
    assert bench.consumer.poll(0) is None


def test_a_listener_hears_everything_in_order() -> None:
    listener = Listener()
    bench = Bench().joined(listener=listener)
    assert listener.calls == [("generation", 1), ("assigned", ["t-0", "t-1", "t-2"])]
    listener.calls.clear()
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0.3)
    assert listener.calls == [
        ("revoked", ["t-0", "t-1", "t-2"]),
        ("generation", 2),
        ("assigned", ["t-0", "t-1", "t-2"]),
    ]
    listener.calls.clear()
    bench.consumer.close()
    assert listener.calls == [("revoked", ["t-0", "t-1", "t-2"])]
    assert bench.native.closed


def test_functions_do_as_a_listener() -> None:
    bench = Bench()
    given: list[Any] = []
    bench.consumer.subscribe("t", on_assign=given.append)
    bench.read(timeout=0.3)
    assert given == [partitions("t-0", "t-1", "t-2")]
    with pytest.raises(ConfigError, match="listener or functions"):
        bench.consumer.subscribe("t", on_assign=given.append, listener=Listener())


def test_cooperative_members_keep_reading_and_hear_of_a_generation_all_the_same() -> None:
    listener = Listener()
    bench = Bench(partition_assignment_strategy="cooperative-sticky").joined(listener=listener)
    listener.calls.clear()
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0.3)
    assert listener.calls == [("generation", 2), ("assigned", [])]
    assert set(bench.native.assigned) == set(partitions("t-0", "t-1", "t-2"))


def assigned(*names: str) -> dict[str, bytes]:
    """Return an assignment for `Group.given`."""
    share: dict[str, list[int]] = {}
    for topic, number in partitions(*names):
        share.setdefault(topic, []).append(number)
    return encode_assignments({MEMBER_ID: Assignment(share)})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "weighted"])
def test_the_broker_may_assign_several_times_in_one_generation(
    strategy: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(partition_assignment_strategy=strategy)
    bench.group.answers.broker_assigns = True
    bench.group.answers.given = assigned()
    bench.joined(count=1)
    assert bench.consumer.assignment() == []
    for names in (("t-0", "t-2"), ("t-2",), ("t-1", "t-2"), ()):
        bench.group.answers.given = assigned(*names)
        bench.consumer.enforce_rebalance("test")
        bench.read()
        assert bench.consumer.assignment() == partitions(*names)
        assert set(bench.native.assigned) == set(partitions(*names))
    assert bench.consumer.generation().generation_id == 1
    event = bench.consumer.events()[-1]
    assert (event.broker_assigns, event.leader, event.member_count) == (True, False, None)
    assert "assigned by the broker" in event.summary()
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    if strategy == "weighted":
        (warning,) = warned
        assert "the broker assigns, and 'weighted' is not asked" in warning
    else:
        assert warned == []
    bench.group.answers.broker_assigns = False
    bench.group.answers.given = None
    bench.consumer.enforce_rebalance("the last member of KIP-848 has left")
    bench.read(timeout=0.3)
    assert not bench.consumer.events()[-1].broker_assigns
    assert len(bench.consumer.assignment()) == 3


def rebalancing(bench: Bench) -> None:
    """Send a join that is not answered; what was read until then is committed before."""
    bench.group.scripts[JoinGroupRequest].append(None)
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0)
    bench.read(timeout=0)
    assert bench.consumer.snapshot().state is MemberState.PREPARING_REBALANCE


def test_a_cooperative_member_commits_before_it_joins() -> None:
    bench = Bench(partition_assignment_strategy="cooperative-sticky").joined(count=4)
    rebalancing(bench)
    assert bench.group.committed() == [{"t-0": 4, "t-1": 4, "t-2": 4}]
    manual = Bench(partition_assignment_strategy="cooperative-sticky", enable_auto_commit=False)
    rebalancing(manual.joined(count=4))
    assert manual.group.committed() == []


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
def test_leaving_during_a_rebalance_commits_what_was_read_in_it(how: str) -> None:
    listener = Listener()
    bench = Bench(partition_assignment_strategy="cooperative-sticky")
    bench.joined(count=4, listener=listener)
    rebalancing(bench)
    bench.fill(2)
    bench.read()  # a member that keeps its partitions goes on reading them
    listener.calls.clear()
    getattr(bench.consumer, how)()
    assert listener.calls == [("revoked", ["t-0", "t-1", "t-2"])]
    assert bench.group.committed()[1:] == [{"t-0": 6, "t-1": 6, "t-2": 6}]
    assert {each.generation_id_or_member_epoch for each in bench.group.commits} == {1}


@pytest.mark.parametrize("answered", [True, False])
def test_leaving_waits_a_moment_for_the_end_of_a_rebalance_that_it_has_joined(
    answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    bench = Bench(partition_assignment_strategy="cooperative-sticky")
    bench.joined(count=4, listener=listener)
    bench.group.scripts[SyncGroupRequest].append(None)
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0.1)
    assert bench.consumer.snapshot().state is MemberState.COMPLETING_REBALANCE
    bench.fill(2)
    bench.read(timeout=0.1)
    sync = SyncGroupResponse(
        protocol_type="consumer", assignment=assigned("t-0", "t-1", "t-2")[MEMBER_ID]
    )
    if answered:
        monkeypatch.setattr(bench.session.calls, "pause", lambda _: bench.group.answer(sync))
    else:
        bench.group.codes[OffsetCommitRequest].append(27)
    listener.calls.clear()
    bench.consumer.close()
    assert listener.calls == [("revoked", ["t-0", "t-1", "t-2"])]
    assert set(bench.group.offsets.values()) == {6 if answered else 4}


@pytest.mark.parametrize("callback", ["assigned", "revoked", "generation"])
def test_exception_of_a_listener_is_raised_and_the_rebalance_goes_on(callback: str) -> None:
    listener = Listener()
    bench = Bench().joined(listener=listener)
    listener.raises[callback] = RuntimeError("mine")
    bench.consumer.enforce_rebalance("test")
    with pytest.raises(RuntimeError, match="mine"):
        bench.read()
    bench.fill(1)
    assert sorted(bench.read()) == ["t-0@0", "t-1@0", "t-2@0"]
    names = [name for name, _ in listener.calls]
    assert names == ["generation", "assigned", "revoked", "generation", "assigned"]


def test_records_are_committed_before_partitions_are_given_up() -> None:
    bench = Bench().joined(count=4)
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0.3)
    assert bench.group.committed() == [{"t-0": 4, "t-1": 4, "t-2": 4}]
    bench.fill(1)
    assert bench.read() == ["t-0@4", "t-1@4", "t-2@4"]


def test_auto_commit_stores_what_was_returned_before_and_nothing_twice() -> None:
    bench = Bench(auto_commit_interval_ms=1_000).joined(count=4)
    bench.fill(2, "t-0")
    bench.advance(1_000)
    bench.consumer.consume(1, 0)
    assert bench.group.committed() == [{"t-0": 4, "t-1": 4, "t-2": 4}]
    bench.advance(1_000)
    bench.consumer.consume(1, 0)  # the record of the call before counts as processed now
    assert bench.group.committed()[1:] == [{"t-0": 5}]
    bench.consumer.close()
    assert bench.group.committed()[2:] == [{"t-0": 6}]


def test_without_auto_commit_only_commit_commits() -> None:
    bench = Bench(enable_auto_commit=False).joined(count=2)
    bench.advance(20_000)
    bench.read(timeout=0)
    assert not bench.group.commits
    told: list[Any] = []
    bench.consumer.commit(callback=lambda error, offsets: told.append((error, len(offsets))))
    assert bench.group.committed() == [{"t-0": 2, "t-1": 2, "t-2": 2}]
    assert told == []
    bench.read(timeout=0)
    assert told == [(None, 3)]
    bench.fill(1, "t-1")
    message = bench.consumer.poll(1)
    bench.consumer.commit(message, asynchronous=False)
    bench.consumer.commit(offsets=[NativePartition("t", 2, 1)], asynchronous=False)
    assert bench.group.committed()[1:] == [{"t-1": 3}, {"t-2": 1}]
    found = bench.consumer.committed(partitions("t-1", "t-2", "x-0"))
    assert [each.offset for each in found] == [3, 1, OFFSET_INVALID]


def test_only_stored_offsets_are_committed_where_the_user_says_what_is_processed() -> None:
    bench = Bench(enable_auto_offset_store=False).joined(count=4)
    bench.consumer.store_offsets(offsets=[NativePartition("t", 1, 2)])
    with pytest.raises(ValueError, match="not assigned"):
        bench.consumer.store_offsets(offsets=[NativePartition("x", 1, 2)])
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0.3)
    assert bench.group.committed() == [{"t-1": 2}]
    with pytest.raises(ConfigError, match=r"enable\.auto\.offset\.store"):
        Bench().consumer.store_offsets(offsets=[])


def test_nothing_is_returned_or_committed_once_the_session_may_be_over() -> None:
    listener = Listener()
    bench = Bench().joined(count=1, listener=listener)
    bench.fill(1)
    bench.group.scripts[HeartbeatRequest].extend([None] * 3)
    bench.clock.advance(11_000)  # the process slept
    assert not bench.consumer.snapshot().holds
    assert not bench.session.may_read()
    with pytest.raises(CommitFailedError, match="rebalanced without"):
        bench.consumer.commit(asynchronous=False)


def test_a_member_that_is_expelled_loses_its_partitions() -> None:
    listener = Listener()
    bench = Bench().joined(count=1, listener=listener)
    listener.calls.clear()
    bench.group.scripts[HeartbeatRequest].append(beaten(25))
    bench.advance(1_500)
    assert bench.consumer.generation().generation_id == -1
    with pytest.raises(NoGenerationError):
        bench.consumer.snapshot().to_confluent()
    bench.read(timeout=0.3)
    assert listener.calls[0] == ("lost", ["t-0", "t-1", "t-2"])
    assert not bench.group.commits
    assert listener.calls[-1] == ("assigned", ["t-0", "t-1", "t-2"])


def test_paused_partitions_rest_until_they_are_resumed(bench: Bench) -> None:
    bench.consumer.pause(partitions("t-0"))
    bench.fill(1)
    assert bench.read() == ["t-1@0", "t-2@0"]
    assert bench.consumer.paused() == partitions("t-0")
    bench.consumer.resume(partitions("t-0"))
    assert bench.read() == ["t-0@0"]
    with pytest.raises(ValueError, match="x-1: not assigned"):
        bench.consumer.pause(partitions("x-1"))


def test_a_new_subscription_rebalances_and_the_old_topic_is_given_up() -> None:
    listener = Listener()
    bench = Bench(partition_assignment_strategy="cooperative-sticky").joined(listener=listener)
    bench.group.topics["u"] = 1
    listener.calls.clear()
    bench.consumer.subscribe("u", listener=listener)
    bench.read(timeout=0.3)
    assert bench.consumer.assignment() == partitions("u-0")
    assert listener.calls == [
        ("revoked", ["t-0", "t-1", "t-2"]),
        ("generation", 2),
        ("assigned", ["u-0"]),
    ]
    joins = [each for each in bench.group.requests if isinstance(each, JoinGroupRequest)]
    assert joins[-1].reason == "the subscription has changed"


def test_a_topic_that_grows_is_noticed_by_the_leader() -> None:
    bench = Bench(metadata_max_age_ms=30_000).joined()
    bench.group.topics["t"] = 4
    for _ in range(40):
        bench.read(timeout=1)
    assert bench.consumer.assignment() == partitions("t-0", "t-1", "t-2", "t-3")
    joins = [each for each in bench.group.requests if isinstance(each, JoinGroupRequest)]
    assert joins[-1].reason == "topic t has 4 partitions, and had 3 when the group was assigned"


def test_a_pattern_finds_topics_that_come_later_and_no_internal_ones() -> None:
    bench = Bench(metadata_max_age_ms=30_000)
    bench.group.topics = {"t.a": 1, "t.internal": 1, "x": 1}
    bench.group.internal = {"t.internal"}
    bench.consumer.subscribe("^t[.]")
    bench.read(timeout=0.3)
    assert bench.consumer.assignment() == partitions("t.a-0")
    bench.group.topics["t.b"] = 1
    for _ in range(40):
        bench.read(timeout=1)
    assert bench.consumer.assignment() == partitions("t.a-0", "t.b-0")
    assert bench.consumer.subscription() == ("t.a", "t.b")


def test_a_topic_that_does_not_exist_yet_is_looked_for_soon() -> None:
    bench = Bench()
    bench.group.topics = {}
    bench.consumer.subscribe("t")
    bench.read(timeout=0.3)
    assert bench.consumer.assignment() == []
    bench.group.topics = {"t": 1}
    for _ in range(3):
        bench.read(timeout=1)
    assert bench.consumer.assignment() == partitions("t-0")


def test_positions_before_and_after_records(bench: Bench) -> None:
    assert [each.offset for each in bench.consumer.position(partitions("t-0"))] == [OFFSET_INVALID]
    bench.fill(5, "t-0")
    bench.read()
    bench.consumer.seek(NativePartition("t", 0, 2))
    assert [each.offset for each in bench.consumer.position(partitions("t-0"))] == [2]
    assert bench.read() == ["t-0@2", "t-0@3", "t-0@4"]
    assert [each.offset for each in bench.consumer.position(partitions("t-0"))] == [5]


def test_a_listener_may_say_where_to_begin() -> None:
    listener = Listener()
    bench = Bench()
    bench.fill(5)
    listener.hooks["assigned"] = lambda _: bench.consumer.seek(NativePartition("t", 1, 4))
    bench.consumer.subscribe("t", listener=listener)
    assert bench.read().count("t-1@4") == 1
    assert bench.native.assigned_at[TopicPartition("t", 1)] == 4


def test_unsubscribing_leaves_the_group_until_the_next_subscription() -> None:
    listener = Listener()
    bench = Bench().joined(count=1, listener=listener)
    bench.consumer.unsubscribe()
    assert listener.calls[-1] == ("revoked", ["t-0", "t-1", "t-2"])
    assert any(isinstance(s.request, LeaveGroupRequest) for s in _sent(bench))
    with pytest.raises(ConfigError, match="subscribe"):
        bench.read()
    bench.consumer.subscribe("t")
    bench.read(timeout=0.3)
    assert bench.consumer.assignment() == partitions("t-0", "t-1", "t-2")


def _sent(bench: Bench) -> list[Any]:
    return [action for _, action in bench.group.driver.log if hasattr(action, "request")]


def test_a_listener_may_not_poll_and_nobody_may_use_a_closed_consumer() -> None:
    listener = Listener()
    bench = Bench()
    listener.hooks["assigned"] = lambda _: bench.consumer.poll(0)
    bench.consumer.subscribe("t", listener=listener)
    with pytest.raises(ConcurrentUseError, match="not poll"):
        bench.read()
    bench.consumer.close()
    bench.consumer.close()
    with pytest.raises(MemberClosedError):
        bench.consumer.poll(0)


def test_two_threads_are_told_apart() -> None:
    listener = Listener()
    bench = Bench()
    raised: list[BaseException] = []

    def other() -> None:
        try:
            bench.consumer.poll(0)
        except ConcurrentUseError as error:
            raised.append(error)

    def run(_: object) -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    listener.hooks["assigned"] = run
    bench.consumer.subscribe("t", listener=listener)
    bench.read(timeout=0.3)
    assert "another thread" in str(raised[0])


def test_settings_may_come_ready_made_or_be_refused_by_librdkafka() -> None:
    config = ConsumerConfig.of({"bootstrap.servers": "b:1", "group.id": "g"})
    with pytest.raises(ConfigError, match="not both"):
        GroupConsumer(config, group_id="h")
    with pytest.raises(ConfigError, match=r'librdkafka refuses.*"fetch\.mim\.bytes"'):
        GroupConsumer({"bootstrap.servers": "b:1", "group.id": "g", "fetch.mim.bytes": 1})
    with GroupConsumer(config) as consumer:
        assert consumer.member_id() == ""
        assert consumer.generation_if_stable() is None
        assert consumer.metrics()["commit-total"] == 0
        assert consumer.events() == ()


def test_an_interrupted_read_skips_nothing_whether_it_goes_on_or_ends(bench: Bench) -> None:
    bench.fill(3, "t-0")
    bench.native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench.read()
    assert bench.read() == ["t-0@0", "t-0@1", "t-0@2"]
    bench.fill(2, "t-0")
    bench.native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench.read()
    bench.consumer.close()
    assert bench.group.offsets.get(TopicPartition("t", 0), 0) <= 3


def test_unprocessed_records_are_not_committed_when_an_exception_leaves_the_block(
    bench: Bench,
) -> None:
    def work() -> None:
        with bench.consumer:
            bench.fill(3, "t-0")
            assert len(bench.read()) == 3
            bench.fill(2, "t-0")
            assert bench.read() == ["t-0@3", "t-0@4"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert bench.group.offsets[TopicPartition("t", 0)] == 3
    assert bench.native.closed


def test_records_given_back_are_read_again(bench: Bench) -> None:
    bench.fill(2, "t-0")
    assert bench.read() == ["t-0@0", "t-0@1"]
    bench.consumer.give_back()
    assert bench.read() == ["t-0@0", "t-0@1"]


@pytest.mark.parametrize("name", ["pause", "resume", "position"])
def test_no_second_thread_steers_a_consumer(bench: Bench, name: str) -> None:
    raised: list[BaseException] = []

    def steer() -> None:
        try:
            getattr(bench.consumer, name)(partitions("t-0"))
        except ConcurrentUseError as error:
            raised.append(error)

    def from_elsewhere(idle_s: float) -> None:
        bench.native.idle = idle
        thread = threading.Thread(target=steer)
        thread.start()
        thread.join()
        idle(idle_s)

    idle, bench.native.idle = bench.native.idle, from_elsewhere
    bench.consumer.consume(1, 0.1)
    assert len(raised) == 1


def test_closing_waits_no_longer_than_it_is_told_for_the_last_commit_too() -> None:
    bench = Bench().joined(count=1)
    bench.group.codes[OffsetCommitRequest].extend([14] * 1_000)
    before_ms = bench.clock.now_ms()
    bench.consumer.close(timeout=2)
    assert bench.clock.now_ms() - before_ms <= 3_000
    assert bench.native.closed


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize(
    ("callback", "calls"),
    [
        ("generation", ["generation", "revoked"]),
        ("assigned", ["generation", "assigned", "revoked"]),
    ],
)
def test_a_listener_may_close_its_consumer_and_is_told_of_nothing_after_that(
    strategy: str, callback: str, calls: list[str]
) -> None:
    listener = Listener()
    bench = Bench(partition_assignment_strategy=strategy)
    bench.fill(1)
    listener.hooks[callback] = lambda _: bench.consumer.close()
    bench.consumer.subscribe("t", listener=listener)
    assert bench.read() == []
    assert [name for name, _ in listener.calls] == calls
    assert bench.native.closed
    with pytest.raises(MemberClosedError):
        bench.read()


@pytest.mark.parametrize("callback", ["revoked", "lost"])
def test_a_listener_that_closes_its_consumer_hears_once_of_what_it_gives_up(callback: str) -> None:
    listener = Listener()
    bench = Bench().joined(count=1, listener=listener)
    listener.calls.clear()
    listener.hooks[callback] = lambda _: bench.consumer.close()
    if callback == "lost":
        bench.group.scripts[HeartbeatRequest].append(beaten(25))
        bench.advance(1_500)
    else:
        bench.consumer.enforce_rebalance("test")
    assert bench.read() == []
    assert listener.calls == [(callback, ["t-0", "t-1", "t-2"])]
    assert bench.consumer.assignment() == []
    assert bench.native.closed


def test_an_assignor_may_close_the_consumer_too() -> None:
    class Assignor(RangeAssignor):
        @override
        def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
            bench.consumer.close()

    listener = Listener()
    bench = Bench(partition_assignment_strategy=Assignor())
    bench.consumer.subscribe("t", listener=listener)
    assert bench.read() == []
    assert listener.calls == []
    assert bench.native.closed


def test_the_callback_of_a_commit_may_close_the_consumer() -> None:
    bench = Bench().joined(count=1)
    bench.consumer.commit(callback=lambda *_: bench.consumer.close())
    assert bench.read() == []
    assert bench.native.closed


def test_a_fork_of_the_process_may_neither_use_nor_end_the_consumer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench().joined(count=1)
    with monkeypatch.context() as child:
        child.setattr("os.getpid", lambda: -1)
        for use in (bench.read, bench.consumer.commit, bench.consumer.give_back):
            with pytest.raises(EngineError, match="after forking"):
                use()
        with pytest.raises(ZeroDivisionError), bench.consumer:
            raise ZeroDivisionError
        bench.consumer.close()
    assert not bench.native.closed
    bench.fill(1, "t-0")
    assert bench.read() == ["t-0@1"]


def test_the_group_does_not_wait_for_the_garbage_collector_to_find_a_dropped_consumer() -> None:
    bench = Bench().joined(listener=Listener())
    gc.collect()
    gc.disable()
    try:
        del bench.consumer
        assert bench.group.ended.done()
    finally:
        gc.enable()


def test_one_that_its_listener_refers_to_ends_with_the_garbage_collector() -> None:
    bench = Bench()
    listener = Listener()
    listener.hooks["back"] = bench.consumer
    bench.joined(listener=listener)
    del bench.consumer, listener
    bench.session = None  # type: ignore[assignment]  # nobody else may keep it
    gc.collect()
    assert bench.group.ended.done()


def test_librdkafka_is_served_while_the_membership_is_in_doubt_and_no_record_is_lost(
    bench: Bench,
) -> None:
    bench.fill(2)
    bench.group.scripts[HeartbeatRequest].extend([None] * 50)
    bench.advance(10_000)  # the session
    assert not bench.consumer.snapshot().holds
    assert bench.read(timeout=0.3) == []
    assert bench.native.paused == set(partitions("t-0", "t-1", "t-2"))
    bench.group.scripts[HeartbeatRequest].clear()
    assert sorted(bench.read(timeout=60)) == [f"t-{n}@{i}" for n in range(3) for i in range(2)]
    assert bench.native.paused == set()


def test_librdkafka_s_log_goes_to_logging_and_repeats_are_held_back(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, mocker: MockerFixture
) -> None:
    told = mocker.spy(LibrdkafkaLog, "log")
    with (
        refusing_port() as port,
        GroupConsumer(bootstrap_servers=f"127.0.0.1:{port}", group_id="g") as consumer,
    ):
        consumer.subscribe("t")
        while told.call_count < 10:
            assert consumer.poll(0.2) is None
    lines = [
        each.getMessage() for each in caplog.records if each.name == "groupsdk.settings.librdkafka"
    ]
    assert lines
    assert len(lines) < told.call_count / 2
    assert all(line.startswith("group=g: librdkafka: ") for line in lines)
    assert capfd.readouterr().err == ""


def test_a_logger_of_the_user_s_gets_every_line() -> None:
    mine: Any = logging.getLogger("groupsdk.test.mine")
    config = ConsumerConfig.of(bootstrap_servers="a:1", group_id="g", logger=mine)
    made: list[dict[str, Any]] = []

    class Consumer(GroupConsumer):
        @override
        @staticmethod
        def _make_native(settings: dict[str, Any]) -> Any:
            made.append(settings)
            return FakeNative()

    Consumer(config).close()
    assert made[0]["logger"] is mine


def test_a_timeout_that_is_no_number_is_named(bench: Bench) -> None:
    with pytest.raises(TypeError, match="seconds or None, not '1'"):
        bench.consumer.poll("1")  # type: ignore[arg-type]  # what is tested


def test_a_leader_refuses_a_plan_with_partitions_that_do_not_exist() -> None:
    class Wild(RangeAssignor):
        name = "wild"

        @override
        def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
            return {member_id: Assignment({"t": (0, 99)}) for member_id in subscriptions}

    bench = Bench(partition_assignment_strategy=Wild())
    bench.consumer.subscribe("t")
    with pytest.raises(AssignmentError, match="'wild' gives t-99"):
        bench.read()
    assert bench.consumer.assignment() == []


@pytest.mark.parametrize("load", [-0.5, float("nan"), float("inf"), 2e15])
def test_a_load_out_of_bounds_is_refused(load: float) -> None:
    with pytest.raises(ValueError, match=r"a load must be 0 to 1e\+15, or None, not"):
        Bench().consumer.report_load(load)


def test_a_reported_load_goes_with_the_next_join() -> None:
    bench = Bench(partition_assignment_strategy="lag", client_id="c-1", group_protocol_type="work")
    bench.consumer.report_load(0.5)
    bench.consumer.subscribe("t")
    coordinator: Any = bench.consumer._session.coordinator
    (offered,) = coordinator.metadata()
    joined = decode_subscriptions({"m": offered.metadata})["m"]
    assert joined.report == MemberReport("c-1", 0.5)
    assert coordinator.protocol_type == "work"


def test_the_cluster_can_be_asked_through_it() -> None:
    bench = Bench().joined(count=3)
    assert bench.consumer.get_watermark_offsets(TopicPartition("t", 1), 1) == (0, 3)
    with pytest.raises(KafkaException, match="TIMED_OUT"):
        bench.consumer.get_watermark_offsets(NativePartition("u", 0))
    bench.native.at_time[TopicPartition("t", 0)] = 2
    (found,) = bench.consumer.offsets_for_times([NativePartition("t", 0, 1_000)])
    assert (found.offset, bench.native.asked_times) == (2, [1_000])
    assert bench.consumer.list_topics() is bench.native.cluster
    assert bench.consumer.list_topics("u", 1) is bench.native.cluster
    assert bench.native.asked_leaders[-1] == "u"
    bench.consumer.close()
    with pytest.raises(MemberClosedError):
        bench.consumer.list_topics()


def test_repr_of_a_consumer_names_group_member_and_state() -> None:
    bench = Bench()
    assert repr(bench.consumer) == (
        "GroupConsumer(group='g', member='', generation=-1, unjoined, owns=0)"
    )
    with pytest.raises(NoGenerationError):
        bench.consumer.consumer_group_metadata()
    bench.joined()
    assert repr(bench.consumer) == (
        "GroupConsumer(group='g', member='consumer-1', generation=1, stable, owns=3)"
    )
    assert bench.consumer.memberid() == "consumer-1"
    assert bench.consumer.consumer_group_metadata() == bench.consumer.snapshot().to_confluent()
    bench.consumer.close()
    assert "closed" in repr(bench.consumer)


def test_processed_records_are_not_given_back(bench: Bench) -> None:
    bench.fill(2, "t-0")
    assert bench.read(1) == ["t-0@0"]
    bench.consumer.count_processed()
    bench.consumer.give_back()
    assert bench.read(1) == ["t-0@1"]
    bench.consumer.give_back()
    assert bench.read(1) == ["t-0@1"]
