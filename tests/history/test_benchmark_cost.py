"""Test how the benchmark of the history counts CPU time and memory."""

import subprocess
import sys


ORPHANED = """
import os, subprocess, sys
from tests.benchmarks.history_decoding import adopt_orphans, cpu_s

adopt_orphans()
before = cpu_s(os.getpid())
work = "import time\\nwhile time.process_time() < 0.5: pass"
# the shell ends before the process that it has started
subprocess.run(["sh", "-c", f'{sys.executable} -c "$0" &', work], check=True)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
print(cpu_s(os.getpid()) - before)
"""
ENDED = """
import os, subprocess, sys
from tests.benchmarks.history_decoding import peak_worker_mb

ended = subprocess.Popen([sys.executable, "-c", ""])
# it keeps its name until its parent has asked how it ended
os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
print(peak_worker_mb(os.getpid()))
"""


def printed(program: str) -> float:
    """Return the number that a program prints, in a process that has no other children."""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def test_the_cpu_time_of_a_process_whose_parent_has_ended_is_counted() -> None:
    assert printed(ORPHANED) >= 0.4


def test_a_process_that_has_ended_takes_no_memory() -> None:
    assert printed(ENDED) == 0
