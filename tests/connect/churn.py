"""Keep a thousand tasks on twenty workers through kills, pauses, restarts and changes, and audit the fence ledger.

`python -m tests.connect.churn --minutes 10` runs as long, and prints what it saw; `make churn` does.
"""

import argparse
import os
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import SystemClock
from tests.connect.crew import Crew
from tests.connect.fence_ledger import Audit


INTERVAL_MS = 4_000
SESSION_MS = 8_000
DELAY_MS = 1_000
REBALANCE_MS = 10_000
"""`rebalance.timeout.ms`: how long a rebalance waits for a member that does not come."""
WORKERS = 4
"""Of each process."""
_REST_S = 4.0


@dataclass
class Churn:
    """A run.

    Args:
        processes: how many processes of `WORKERS` workers.
    """

    directory: Path
    tasks: int = 1_000
    processes: int = 5
    seed: int = 0
    events: Counter[str] = field(default_factory=Counter)
    suspended: set[str] = field(default_factory=set)
    """The names of processes that were ever suspended."""

    def run(self, duration_s: float) -> Audit:
        """Make things happen for so long, have everything come to rest, and audit.

        Raises:
            AssertionError: a task had two owners, was without one for too long, or lost its state.
        """
        chance = Random(self.seed)
        environment = {"INTERVAL_MS": INTERVAL_MS, "SESSION_MS": SESSION_MS, "DELAY_MS": DELAY_MS}
        with (
            EmbeddedBroker() as broker,
            Crew(
                broker.bootstrap_servers, self.directory, self.tasks, WORKERS=WORKERS, **environment
            ) as crew,
        ):
            for number in range(self.processes):
                crew.start(f"p{number}")
            crew.settled(timeout_s=180)
            clock = SystemClock()
            end_ms = clock.now_ms() + int(duration_s * 1000)
            while clock.now_ms() < end_ms:
                self._happen(crew, chance)
                time.sleep(_REST_S)
            crew.want(self.tasks)
            crew.settled(timeout_s=180)
            audit = crew.ledger.audit(self.tasks)
        self._check(audit)
        return audit

    def _happen(self, crew: Crew, chance: Random) -> None:
        event = chance.choice(("kill", "kill", "end", "suspend", "change"))
        name = chance.choice(sorted(crew.processes))
        process = crew.processes[name]
        self.events[event] += 1
        if event == "change":
            # tasks of the lower numbers are there all the time: what was written of those is audited for gaps
            crew.want(self.tasks + chance.randrange(self.tasks // 10))
        elif event == "suspend":
            self.suspended.add(name)
            process.send_signal(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 + 2)
            process.send_signal(signal.SIGCONT)
        else:
            process.send_signal(signal.SIGKILL if event == "kill" else signal.SIGTERM)
            process.wait(60)
            del crew.processes[name]
            time.sleep(chance.choice((0, 0.5, 2)))
            crew.start(f"{name.split('.')[0]}.{sum(self.events.values())}")

    def _check(self, audit: Audit) -> None:
        # nothing keeps a process that is stopped between a look at its stop signal and a write from writing when
        # it goes on; the token gives it away. One that runs stops its tasks before others may have them.
        strangers = [
            each for each in audit.refused if each.worker.rsplit("-", 1)[0] not in self.suspended
        ]
        assert strangers == []
        assert len(audit.refused) <= 20 * self.events["suspend"]
        # a crash is noticed after the session timeout, and perhaps another one meanwhile; the last two are for the
        # write itself and for starting hundreds of tasks
        bound_ms = 2 * (SESSION_MS + REBALANCE_MS) + DELAY_MS + 2 * INTERVAL_MS
        assert audit.longest_gap_ms <= bound_ms, audit.longest_gap_ms


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        churn = Churn(Path(directory), seed=given.seed)
        print(f"seed {given.seed}, {given.minutes:g} minutes", flush=True)
        audit = churn.run(given.minutes * 60)
    events = ", ".join(f"{count} x {event}" for event, count in sorted(churn.events.items()))
    print(f"{events}; {audit.writes:,} writes, {audit.handovers:,} hand-overs, no state lost")
    print(f"{len(audit.refused)} writes refused, all of suspended processes")
    print(f"longest time between two writes of a task: {audit.longest_gap_ms:,} ms")


if __name__ == "__main__":
    main()
