"""Test the metrics against Kafka's own."""

import math
import random
import tracemalloc

import pytest

from groupsdk.member.metrics import METRICS, CoordinatorMetrics


NAN = math.nan

TRACE = """
snap 1000000
failed 1000500
join 1002000 1400
sync 1002300 280
rebalance 1002400 2400
sent 1005000
heartbeat 1005012 12
sent 1008000
heartbeat 1008007 7
snap 1010000
sent 1034000
heartbeat 1034090 90
join 1034500 40
sync 1034600 33
rebalance 1034700 610
snap 1040250
sent 1066000
heartbeat 1066003 3
snap 1093999
snap 1130000
sent 1131000
heartbeat 1131004 4
failed 2500000
snap 2500001
heartbeat 2600000 900
heartbeat 2629000 5
heartbeat 2631000 6
heartbeat 2659000 7
heartbeat 2662000 8
snap 2663000
snap 9999999
"""
"""Event, time in milliseconds and latency in milliseconds where it has one."""

JAVA = """
nan 0 0 nan nan 0 0 nan nan 0 0 nan nan 0 0 0 0 0 -1 -1
12 0.05 2 1400 1400 0.025 1 280 280 0.025 1 2400 2400 2400 1 0.997229916897507 1 0.997229916897507 7 2
90 0.07453416149068323 3 720 1400 0.049689440993788817 2 156.5 280 0.049689440993788817 2 1505 2400 3010 2 1.97788613419408 1 0.98894306709704 5 6
90 0.03338396568128328 4 40 40 0.016807005159750584 2 33 33 0.016835300257580094 2 610 610 3010 2 1.9491071870891141 1 0.9745535935445571 59 27
nan 0 4 nan nan 0 2 nan nan 0 2 nan nan 3010 2 1.9302949061662196 1 0.9651474530831098 95 64
nan 0 5 nan nan 0 2 nan nan 0 2 nan nan 3010 2 1.4117644290657982 2 1.4117644290657982 1465 1369
900 0.07936507936507936 10 nan nan 0 2 nan nan 0 2 nan nan 3010 2 1.368041041231237 2 1.368041041231237 1628 1532
nan 0 10 nan nan 0 2 nan nan 0 2 nan nan 3010 2 0 2 0 8965 8868
"""
"""What AbstractCoordinator of kafka-clients 4.3.1 measures at each ``snap`` of the trace, as `METRICS` lists."""


def _replay(trace: str) -> list[dict[str, float]]:
    metrics = CoordinatorMetrics()
    record = {
        "heartbeat": metrics.heartbeat_received,
        "join": metrics.join_completed,
        "sync": metrics.sync_completed,
        "rebalance": metrics.rebalance_completed,
    }
    snapshots: list[dict[str, float]] = []
    for line in trace.strip().splitlines():
        event, now, *latency = line.split()
        now_ms = int(now)
        if event == "snap":
            snapshots.append(metrics.snapshot(now_ms))
        elif event == "sent":
            metrics.last_heartbeat_ms = now_ms
        elif event == "failed":
            metrics.rebalance_failed(now_ms)
        else:
            record[event](int(latency[0]), now_ms)
    return snapshots


def test_values_are_those_of_java() -> None:
    snapshots = _replay(TRACE)
    for snapshot, line in zip(snapshots, JAVA.strip().splitlines(), strict=True):
        java = dict(zip(METRICS, map(float, line.split()), strict=True))
        assert snapshot == pytest.approx(java, rel=1e-12, nan_ok=True)


def test_names_are_those_of_java_in_a_fixed_order() -> None:
    assert list(CoordinatorMetrics().snapshot(0)) == list(METRICS)


def test_a_new_member_has_no_averages_and_never_did_anything() -> None:
    snapshot = CoordinatorMetrics().snapshot(123)
    for name, value in snapshot.items():
        if name.endswith(("-avg", "-max")):
            assert math.isnan(value), name
        else:
            assert value == (-1 if name.endswith("-ago") else 0), name


def test_a_time_of_zero_is_not_never() -> None:
    metrics = CoordinatorMetrics()
    metrics.last_heartbeat_ms = 0
    metrics.rebalance_completed(5, 0)
    snapshot = metrics.snapshot(1999)
    assert snapshot["last-heartbeat-seconds-ago"] == 1
    assert snapshot["last-rebalance-seconds-ago"] == 1


def test_a_maximum_is_forgotten_after_the_window() -> None:
    metrics = CoordinatorMetrics()
    metrics.heartbeat_received(500, 0)
    metrics.heartbeat_received(20, 40_000)
    assert metrics.snapshot(59_999)["heartbeat-response-time-max"] == 500
    assert metrics.snapshot(60_000)["heartbeat-response-time-max"] == 20
    assert math.isnan(metrics.snapshot(100_000)["heartbeat-response-time-max"])


def test_a_latency_of_zero_counts() -> None:
    metrics = CoordinatorMetrics()
    metrics.join_completed(0, 10)
    snapshot = metrics.snapshot(10)
    assert (snapshot["join-time-avg"], snapshot["join-time-max"]) == (0, 0)


def test_totals_are_never_forgotten() -> None:
    metrics = CoordinatorMetrics()
    for now_ms in range(0, 86_400_000, 600_000):
        metrics.rebalance_completed(2, now_ms)
    snapshot = metrics.snapshot(86_400_000)
    assert (snapshot["rebalance-total"], snapshot["rebalance-latency-total"]) == (144, 288)
    assert snapshot["rebalance-rate-per-hour"] == pytest.approx(6)


def test_memory_is_constant() -> None:
    metrics = CoordinatorMetrics()
    rng = random.Random(1)

    def run(start_ms: int) -> None:
        for now_ms in range(start_ms, start_ms + 30_000_000, 3000):
            metrics.last_heartbeat_ms = now_ms
            metrics.heartbeat_received(rng.randrange(50), now_ms)
            metrics.join_completed(3, now_ms)

    run(0)
    growths = []
    tracemalloc.start()
    try:
        for start_ms in (30_000_000, 60_000_000, 90_000_000):
            before, _ = tracemalloc.get_traced_memory()
            run(start_ms)
            growths.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    # what other threads of the process take is counted, too
    assert min(growths) < 4096
