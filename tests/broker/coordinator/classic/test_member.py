import gc
import tracemalloc

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import GroupMember, PendingMember
from groupsdk.broker.coordinator.runtime.deadlines import NEVER
from tests.broker.coordinator.group.driving import Driver


def test_a_member_begins_without_a_session_and_with_nothing_parked() -> None:
    group = ClassicGroup("g", 1)
    member = GroupMember(group, "m", None, "c", "/h", 60_000, 10_000, (("a", b"1"),))

    assert member.deadline_ms == PendingMember(group, "n").deadline_ms == NEVER
    assert (member.join, member.sync, member.assignment) == (None, None, b"")
    assert not member.is_new


def test_there_are_many_so_that_they_have_slots_only() -> None:
    group = ClassicGroup("g", 1)

    for each in (group, PendingMember(group, "n")):
        assert not hasattr(each, "__dict__")
    assert not hasattr(GroupMember(group, "m", None, "c", "/h", 1, 1, ()), "__dict__")


def test_a_group_of_one_member_takes_little_memory(driver: Driver) -> None:
    driver.stable(group_id="first")
    driver.answers.clear()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(300):
            driver.stable(group_id=f"group-{number}")
            # what the test keeps
            for kept in (driver.answers, driver.versions, driver.log):
                kept.clear()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(driver.shard.group_ids) == 301
    # Kafka's takes 2.2 KB of heap, with a member id of 38 bytes and a little assignment
    assert (after - before) / 300 < 2_200
