"""Holds the lease that processes share."""

import multiprocessing
from typing import Any

from groupsdk.clock import ManualClock
from groupsdk.connect.tasks.process_run import SharedLease


def test_lease_holds_until_the_time_of_the_last_renewal() -> None:
    clock = ManualClock(1_000)
    lease = SharedLease(clock)
    assert (lease.holds(), lease.is_over()) == (True, False)
    lease.renew(1_500, 2_000)
    clock.advance(499)
    assert (lease.holds(), lease.is_over()) == (True, False)
    clock.advance(1)
    assert (lease.holds(), lease.is_over()) == (False, False)
    clock.advance(500)
    assert (lease.holds(), lease.is_over()) == (False, True)
    lease.renew(2_500, 3_000)
    assert (lease.holds(), lease.is_over()) == (True, False)


def _tell(lease: SharedLease, pipe: Any) -> None:
    while pipe.recv():
        pipe.send((lease.holds(), lease.is_over()))


def test_lease_renewal_is_seen_by_another_process() -> None:
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    lease = SharedLease()
    process = spawn.Process(target=_tell, args=(lease, there), daemon=True)
    process.start()
    said = []
    for times in ((2**62, 2**62), (0, 2**62), (0, 0)):
        lease.renew(*times)
        here.send(True)
        said.append(here.recv())
    here.send(False)
    process.join(60)
    assert said == [(True, False), (False, False), (False, True)]
