"""Tests a broker whose machine's date jumps: records and offsets kept, groups work on.

While it runs, its clock is that since boot, which does not jump (`groupsdk.clock.WallClock`); from one start to
the next it may be any time earlier or later.
"""

from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import ManualClock, WallClock
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupsdk.wire.messages.transactions import InitProducerIdRequest
from tests.broker.clients import batch, connect, join, produce
from tests.survival.load import committed_offset, read_all


_DAY_MS = 86_400_000
_JUMPS_MS = (0, 3_600_000, -3_600_000, 2 * _DAY_MS, -2 * _DAY_MS, 0)


class ShiftedClock:
    """The machine's clock, as it would be on another day."""

    def __init__(self, offset_ms: int) -> None:
        self._clock = WallClock()
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        """Return the time, and what was added."""
        return self._clock.now_ms() + self._offset_ms


def test_a_date_that_goes_back_and_forth_between_starts_loses_nothing(tmp_path: Path) -> None:
    values: list[bytes] = []
    producer_ids = set()
    for number, offset_ms in enumerate(_JUMPS_MS):
        clock = ShiftedClock(offset_ms)
        with (
            EmbeddedBroker(clock=clock, data_dir=tmp_path, topics={"t": 1}) as broker,
            connect(broker) as client,
        ):
            assert list(read_all(client, "t").values()) == values
            if number:
                assert committed_offset(client, "g", "t") == number - 1
            values.append(b"%d" % number)
            written = produce(client, "t", batch(values[-1], timestamp=clock.now_ms()))
            assert (written.error_code, written.base_offset) == (0, number)
            parts = (OffsetCommitRequestPartition(0, number),)
            commit = OffsetCommitRequest(
                "g", topics=(OffsetCommitRequestTopic("t", partitions=parts),)
            )
            while client.ask(commit, 8).topics[0].partitions[0].error_code:
                pass
            joined = join(client, f"g{number}")
            beat = HeartbeatRequest(f"g{number}", joined.generation_id, joined.member_id)
            assert client.ask(beat, 4).error_code == 0
            producer_ids.add(client.ask(InitProducerIdRequest(None, 1_000), 4).producer_id)
    assert len(producer_ids) == len(_JUMPS_MS)


@pytest.mark.parametrize("jump_ms", [60_000, _DAY_MS, 5 * _DAY_MS])
def test_a_leap_forwards_ends_sessions_and_nothing_else(jump_ms: int) -> None:
    clock = ManualClock(1_800_000_000_000)
    settings = {"log.retention.ms": -1}
    with (
        EmbeddedBroker(settings, clock=clock, topics={"t": 1}) as broker,
        connect(broker) as client,
    ):
        joined = join(client, "g")
        assert produce(client, "t", batch(b"v", timestamp=clock.now_ms())).error_code == 0
        broker.advance(jump_ms)
        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
        assert client.ask(beat, 4).error_code == 25
        assert join(client, "g").error_code == 0
        assert list(read_all(client, "t").values()) == [b"v"]
        assert produce(client, "t", batch(b"w", timestamp=clock.now_ms())).base_offset == 1
