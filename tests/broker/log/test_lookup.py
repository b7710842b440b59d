"""Records are found by their time, over segments, in any compression."""

from hypothesis import given, settings, strategies as st

from groupsdk.broker.log.lookup import max_timestamp, offset_for_timestamp
from tests.broker.log.logs import NOW_MS, batch, open_log


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
    assert offset_for_timestamp(log.segments, log.epochs, NOW_MS + wanted, start) == expected
    latest = max(times, default=None)
    found = max_timestamp(log.segments, log.epochs, 0)
    if latest is None:
        assert found is None
    else:
        assert found == (times.index(latest), NOW_MS + latest, 3)
