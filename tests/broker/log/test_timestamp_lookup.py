"""Records are found by their time, over segments, in any compression."""

import tracemalloc

from hypothesis import given, settings, strategies as st

from groupsdk.broker.log.timestamp_lookup import max_timestamp, offset_for_timestamp
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.records.batch import read_header
from tests.broker.log.bad_batches import MAX_TIMESTAMP, patched, record, with_body
from tests.broker.log.logs import NOW_MS, batch, open_log
from tests.support.steps import finished


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 30), max_size=40),
    st.integers(0, 32),
    st.integers(0, 4),
    st.integers(0, 40),
)
def test_the_first_record_as_late_as_that_is_found(
    times: list[int], wanted: int, compression: int, start: int
) -> None:
    log = open_log()
    for time in times:
        log.append(
            batch(b"v", timestamp=NOW_MS + time, compression=compression),
            now_ms=NOW_MS,
            leader_epoch=3,
        )
    expected = next(
        (
            (offset, NOW_MS + time, 3)
            for offset, time in enumerate(times)
            if time >= wanted and offset >= start
        ),
        None,
    )
    search = offset_for_timestamp(log.segments, log.epochs, NOW_MS + wanted, start)
    assert finished(search) == expected
    latest = max(times, default=None)
    found = finished(max_timestamp(log.segments, log.epochs, 0))
    if latest is None:
        assert found is None
    else:
        assert found == (times.index(latest), NOW_MS + latest, 3)


def test_a_long_search_is_made_in_steps_and_holds_no_records() -> None:
    # 7 bytes a record, of which nearly nothing is left when compressed
    count = 60_000
    body = b"".join(record(n, key=None, value=None) for n in range(count))
    log = open_log(config=LogConfig())
    # it says that it has a later record, as a broker that does not look at records may have stored it
    lying = patched(with_body(body, count, NOW_MS, 4), (MAX_TIMESTAMP, ">q", NOW_MS + 1))
    log.write(lying, (read_header(lying),), (0,), None, 0, NOW_MS)
    log.append(batch(b"v", timestamp=NOW_MS + 1), now_ms=NOW_MS)

    search = offset_for_timestamp(log.segments, log.epochs, NOW_MS + 1, 0)
    next(search)
    tracemalloc.start()
    steps = sum(1 for _ in search)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert steps > 20
    assert peak < 2 * 2**20
    search = offset_for_timestamp(log.segments, log.epochs, NOW_MS + 1, 0)
    assert finished(search) == (count, NOW_MS + 1, 0)
