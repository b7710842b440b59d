"""Test what goes on between two batches of records, in virtual time."""

import logging

import pytest
from pytest_mock import MockerFixture

from groupsdk.errors import ConfigError
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.consumer.rig import Bench, BrokerAssignedGroup, Listener, partitions


def test_a_failed_commit_before_revocation_is_logged_and_holds_nothing_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.fill(1)
    bench.consumer.subscribe("t")
    bench.read()
    bench.group.codes[OffsetCommitRequest].append(12)
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0)
    assert "offsets were not committed before revocation" in caplog.text
    assert bench.consumer.generation().generation_id == 2


def test_an_auto_commit_that_fails_is_made_again_at_the_next_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(auto_commit_interval_ms=1_000)
    bench.fill(1)
    bench.consumer.subscribe("t")
    bench.read()
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
    bench = Bench(enable_auto_commit=False)
    bench.fill(100)
    bench.consumer.subscribe("t")
    bench.read()
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
    assert bench.session.member._engine_handle.config.security.sasl_password == "new"
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
