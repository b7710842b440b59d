"""Test the class to subclass, for threads."""

import pytest

from groupsdk import Coordinator, GroupMembershipOperation
from groupsdk.clock import Clock, ManualClock
from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.settings.config import MemberConfig
from tests.drivers.virtual import START_MS, FakeHost, config
from tests.support.plain_workers import PlainWorker


@pytest.fixture
def hosts() -> list[FakeHost]:
    return []


@pytest.fixture
def worker(hosts: list[FakeHost]) -> PlainWorker:
    def open_host(config: MemberConfig, clock: Clock, mailbox: Mailbox) -> FakeHost:
        hosts.append(FakeHost(config, clock, mailbox))
        return hosts[0]

    worker = PlainWorker(config(), clock=ManualClock(START_MS))
    worker._groupsdk_handle.open_host = open_host
    return worker


def test_abstract_coordinator_is_a_coordinator(worker: PlainWorker) -> None:
    assert isinstance(worker, Coordinator)


def test_four_methods_make_a_member(worker: PlainWorker, hosts: list[FakeHost]) -> None:
    with worker as entered:
        assert entered is worker
        assert worker.ensure_active_group(1)
        assert worker.assigned == [b"work"]
        worker.request_rejoin("once more")
        assert worker.poll(1)
        assert worker.assigned == [b"work"] * 2
        assert worker.metrics()["join-total"] == 2
        worker.leave_group("enough")
        assert worker.generation_if_stable() is None
        assert worker.poll()
    assert hosts[0].ended.done()


def test_close_of_a_coordinator_takes_timeout_and_operation(
    worker: PlainWorker, hosts: list[FakeHost]
) -> None:
    assert worker.ensure_active_group(1)
    sent = len(hosts[0].requests)
    worker.close(0, GroupMembershipOperation.REMAIN_IN_GROUP)
    assert len(hosts[0].requests) == sent
    assert hosts[0].ended.done()
