"""Test how the benchmark of the history counts CPU time and memory."""

import os
import subprocess
import sys

from tests.benchmarks.history_decoding import peak_worker_mb


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


def test_a_process_that_has_ended_takes_no_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        # it keeps its name until its parent has asked how it ended
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert peak_worker_mb(os.getpid()) == 0
