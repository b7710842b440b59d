"""Test how the benchmark of the history counts CPU time."""

import subprocess
import sys


PROGRAM = """
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


def test_the_cpu_time_of_a_process_whose_parent_has_ended_is_counted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    assert float(done.stdout) >= 0.4
