"""Holds all shipped assignors to one result in every process, whatever the hashes of strings are."""

import os
import subprocess
import sys
from pathlib import Path

from assignors.registry import known_assignors


ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import hashlib, logging, random
from assignors.registry import known_assignors, resolve
from groupsdk.assignment.check.cases import fresh_case, later_case

logging.disable()
for name in known_assignors():
    digest = hashlib.sha256()
    for seed in range(60):
        source = random.Random(seed)
        case = fresh_case(source)
        plan = resolve(name).assign(case.cluster, case.subscriptions)
        later = later_case(source, case, plan, lambda: resolve(name))
        again = resolve(name).assign(later.cluster, later.subscriptions)
        for member, share in [*plan.items(), *again.items()]:
            digest.update(repr((member, [*share])).encode("utf-8"))
    print(name, digest.hexdigest())
"""


def digests(hash_seed: str) -> list[str]:
    """Runs all assignors on the same groups in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
    )
    return done.stdout.splitlines()


def test_every_process_finds_the_same() -> None:
    first = digests("1")

    assert [line.split()[0] for line in first] == known_assignors()
    assert len({line.split()[1] for line in first}) == len(first)
    assert digests("2") == first
