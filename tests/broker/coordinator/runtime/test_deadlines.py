from random import Random

import pytest

from groupsdk.broker.coordinator.runtime.deadlines import NEVER, Deadline, DeadlineBuckets


def pop(buckets: DeadlineBuckets[Deadline], now_ms: int) -> list[Deadline]:
    due = []
    while buckets.next_ms <= now_ms:
        due += buckets.pop_due(now_ms)
    return due


def test_nothing_is_due_before_its_time_and_all_of_it_at_the_buckets_end() -> None:
    buckets: DeadlineBuckets[Deadline] = DeadlineBuckets(100)
    one, two, later = Deadline(), Deadline(), Deadline()
    buckets.set(one, 101)
    buckets.set(two, 200)
    buckets.set(later, 201)

    assert buckets.next_ms == 200
    assert pop(buckets, 199) == []
    assert pop(buckets, 200) == [one, two]
    assert one.deadline_ms == NEVER
    assert pop(buckets, 1_000) == [later]
    assert buckets.next_ms == NEVER


def test_postponed_deadline_is_filed_again_when_its_bucket_comes() -> None:
    buckets: DeadlineBuckets[Deadline] = DeadlineBuckets(100)
    holder = Deadline()
    buckets.set(holder, 100)
    for deadline_ms in range(200, 1_000, 100):
        buckets.set(holder, deadline_ms)
        # renewing costs no filing
        assert holder.filed_ms == 100

    assert pop(buckets, 100) == []
    assert buckets.next_ms == 900
    assert pop(buckets, 900) == [holder]


def test_deadline_brought_forward_is_due_earlier_and_once() -> None:
    buckets: DeadlineBuckets[Deadline] = DeadlineBuckets(1)
    holder = Deadline()
    buckets.set(holder, 300)
    buckets.set(holder, 45)

    assert pop(buckets, 45) == [holder]
    buckets.set(holder, 300)
    assert pop(buckets, 300) == [holder]
    assert pop(buckets, 1_000) == []


def test_cleared_deadline_is_not_due() -> None:
    buckets: DeadlineBuckets[Deadline] = DeadlineBuckets(10)
    holder = Deadline()
    buckets.set(holder, 50)
    buckets.clear(holder)

    assert pop(buckets, 100) == []
    buckets.set(holder, 150)
    assert pop(buckets, 150) == [holder]


@pytest.mark.parametrize("width_ms", [1, 7, 100])
def test_deadline_buckets_agree_with_a_plain_table(width_ms: int) -> None:
    random = Random(width_ms)
    buckets: DeadlineBuckets[Deadline] = DeadlineBuckets(width_ms)
    holders = [Deadline() for _ in range(20)]
    table: dict[Deadline, int] = {}
    now_ms = 0
    for _ in range(2_000):
        holder = random.choice(holders)
        if random.random() < 0.2:
            buckets.clear(holder)
            table.pop(holder, None)
        else:
            table[holder] = now_ms + random.randint(1, 500)
            buckets.set(holder, table[holder])
        now_ms += random.randint(0, 30)
        for due in pop(buckets, now_ms):
            assert table.pop(due) <= now_ms
        assert all(now_ms - each < width_ms for each in table.values())
