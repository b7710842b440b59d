"""Write the logs of a small fleet: clusters in which something stands still, and such in which nothing does."""

from pathlib import Path

from examples.history_log import LogWriter, Seat, commit, generation


START_MS = 1_790_899_200_000
STOPPED_S = 120
"""For how long one member has stopped at the end of the log."""
LENGTH_S = 300


def write_cluster(root: Path, *, stopped: bool) -> Path:
    """Write five minutes of a cluster: `orders` commits each five seconds until one of its two members stops, if it is to; others are done."""
    a = Seat("a", {"sales": [0, 1, 2]}, host="/10.0.0.1")
    b = Seat("b", {"sales": [3]}, host="/10.0.0.2")
    with LogWriter(root, 0) as log:
        log.append(START_MS, generation("orders", 1, {"a-1": a, "b-1": b}, ts_ms=START_MS))
        # it read what there was, and went
        log.append(START_MS, generation("nightly", 1, {"n-1": Seat("n", {"sales": [0]})}))
        log.append(START_MS, *(commit("nightly", "sales", 0, n, START_MS) for n in (1, 2)))
        log.append(START_MS + 1_000, generation("nightly", 2, {}))
        for second in range(0, LENGTH_S + 1, 5):
            now = START_MS + 1_000 * second
            log.append(now, commit("orders", "sales", 3, second, now))
            if not stopped or second <= LENGTH_S - STOPPED_S:
                log.append(now, *(commit("orders", "sales", n, second, now) for n in range(3)))
    return root
