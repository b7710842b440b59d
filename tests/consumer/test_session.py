"""Test what goes on between two batches of records, in virtual time."""

import logging
from typing import Any

import pytest
from confluent_kafka import OFFSET_END
from pytest_mock import MockerFixture

from groupsdk.errors import ConfigError
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.consumer.rig import Bench, BrokerAssignedGroup, FakeNative, Listener, partitions


def test_a_failed_commit_before_revocation_is_logged_and_holds_nothing_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench().joined(count=1)
    bench.group.codes[OffsetCommitRequest].append(12)
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0)
    assert "offsets were not committed before revocation" in caplog.text
    assert bench.consumer.generation().generation_id == 2


@pytest.mark.parametrize("code", [3, 100], ids=["UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"])
def test_a_commit_before_revocation_is_not_repeated_for_a_topic_that_is_gone(code: int) -> None:
    bench = Bench().joined(count=1)
    bench.group.codes[OffsetCommitRequest].extend([code] * 1_000)
    bench.consumer.enforce_rebalance("test")
    began_ms = bench.clock.now_ms()
    bench.read(timeout=0)
    assert bench.consumer.generation().generation_id == 2
    assert bench.clock.now_ms() == began_ms
    assert len(bench.group.commits) == 1


def test_a_commit_before_revocation_is_repeated_after_what_passes() -> None:
    bench = Bench().joined(count=1)
    bench.group.codes[OffsetCommitRequest].extend([14, 14])
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0)
    assert len(bench.group.commits) == 3


def test_an_auto_commit_that_fails_is_made_again_at_the_next_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(auto_commit_interval_ms=1_000).joined(count=1)
    bench.group.codes[OffsetCommitRequest].append(12)
    bench.advance(1_000)
    bench.read(timeout=0)
    bench.read(timeout=0)
    assert "in the background failed: OffsetCommit of t-0, t-1, t-2" in caplog.text
    bench.advance(1_000)
    bench.read(timeout=0)
    assert bench.group.committed()[-1] == {"t-0": 1, "t-1": 1, "t-2": 1}


def test_commits_that_fail_in_a_row_are_logged_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(auto_commit_interval_ms=1_000)
    bench.fill(100)
    bench.consumer.subscribe("t")
    bench.group.codes[OffsetCommitRequest].extend([12] * 40)
    while len(bench.group.commits) < 40:
        bench.consumer.poll(0)
        bench.advance(1_000)
    bench.consumer.poll(0)
    failed = [each for each in caplog.records if "in the background failed" in each.getMessage()]
    assert [each.levelno for each in failed].count(logging.WARNING) == 6  # 1, 2, 4, 8, 16, 32
    assert "(32 times by now)" in caplog.text


def test_commits_that_a_newer_one_replaces_fail_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after a pause of the broker, in which an auto commit was made each second."""
    bench = Bench(enable_auto_commit=False).joined(count=100)
    (where,) = partitions("t-0")
    bench.group.codes[OffsetCommitRequest].extend([7] * 17)
    for offset in range(1, 18):
        bench.session.commit_async({where: OffsetAndMetadata(offset)})
    while bench.session.committer.busy:
        bench.session.committer.settle()
        bench.advance(1_000)
    assert bench.group.offsets[where] == 17
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_credentials_are_changed_for_the_membership_and_for_reading(mocker: MockerFixture) -> None:
    bench = Bench(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="user",
        sasl_password="old",
    )
    told = mocker.patch.object(bench.consumer._reader.native, "set_sasl_credentials", create=True)
    bench.fill(1)
    bench.consumer.subscribe("t")
    bench.consumer.set_sasl_credentials("user", "new")
    told.assert_not_called()  # other threads would wait for as long as one polls
    bench.read()
    told.assert_called_once_with("user", "new")
    assert bench.session.member._groupsdk_handle.config.security.sasl_password == "new"
    with pytest.raises(ConfigError):
        bench.consumer.set_sasl_credentials("", "")
    bench.read()
    told.assert_called_once()


def test_a_new_member_epoch_is_told_once_and_looked_for_only_where_something_changed(
    mocker: MockerFixture,
) -> None:
    bench, listener = Bench(group_protocol="consumer"), Listener()
    bench.consumer.subscribe("t", listener=listener)
    bench.read()
    group = bench.group
    assert isinstance(group, BrokerAssignedGroup)
    looks = mocker.spy(bench.session.coordinator, "tell_epoch")
    bench.read(timeout=0)
    quiet = looks.call_count
    for _ in range(10):
        bench.read(timeout=0)
    assert looks.call_count == quiet
    group.member_epoch += 1
    bench.advance(2_000)
    bench.read()
    bench.read()
    assert [value for name, value in listener.calls if name == "generation"] == [1, 2]


@pytest.mark.parametrize("settings", [{}, {"group_protocol": "consumer"}])
def test_a_client_that_has_forgotten_all_brokers_is_replaced_and_reading_goes_on(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(enable_auto_commit=False, **settings)
    bench.consumer.subscribe("t")
    bench.fill(2)
    assert sorted(bench.read()) == [f"t-{n}@{offset}" for n in range(3) for offset in range(2)]
    bench.consumer.pause(partitions("t-1"))
    bench.fill(2)
    lost = bench.native
    bench.forget_brokers()
    assert sorted(bench.read()) == ["t-0@2", "t-0@3", "t-2@2", "t-2@3"]
    assert lost.closed
    assert (bench.connections, bench.native.closed) == (2, False)
    assert "group=g: librdkafka reaches no broker any more; reconnecting" in caplog.text
    bench.consumer.resume(partitions("t-1"))
    assert bench.read() == ["t-1@2", "t-1@3"]
    assert bench.connections == 2
    assert bench.group.committed() == []


def test_second_client_begins_where_the_first_one_began_without_a_record() -> None:
    bench = Bench(auto_offset_reset="latest")
    bench.fill(5, "t-0")
    bench.consumer.subscribe("t")
    assert bench.read() == []
    bench.native.ends[partitions("t-1")[0]] = 3  # written while no broker was known
    bench.native.watermarks = {partitions("t-0")[0]: (0, 5), partitions("t-1")[0]: (0, 0)}
    bench.forget_brokers()
    assert bench.read() == ["t-1@0", "t-1@1", "t-1@2"]
    assert bench.native.assigned_at == dict(
        zip(partitions("t-0", "t-1", "t-2"), (5, 0, OFFSET_END), strict=True)
    )


def test_second_client_gets_the_newest_credentials(mocker: MockerFixture) -> None:
    bench = Bench(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="user",
        sasl_password="old",
    )
    told = mocker.patch.object(FakeNative, "set_sasl_credentials", create=True)
    bench.consumer.subscribe("t")
    bench.consumer.set_sasl_credentials("user", "new")
    bench.read()
    bench.forget_brokers()
    bench.read()
    bench.read()
    assert told.call_args_list == [mocker.call("user", "new")] * 2


def test_a_client_is_kept_while_there_is_no_other(
    bench: Bench, mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    connect = mocker.patch.object(bench, "connect", side_effect=ConfigError("s3cret"))
    bench.forget_brokers()
    bench.fill(1)
    bench.read()
    assert "group=g: cannot reconnect yet: ConfigError" in caplog.text
    assert "s3cret" not in caplog.text
    bench.read()
    assert connect.call_count == 1, "until the next look"
    mocker.stop(connect)
    bench.forget_brokers()
    assert sorted(bench.read()) == ["t-0@0", "t-1@0", "t-2@0"]
    assert bench.connections == 2
