"""Holds the cost of `import groupsdk`: nothing heavy is imported before it is used."""

import subprocess
import sys

import pytest


# What a user who only reads `groupsdk.Generation` must not pay for, or may not have installed.
HEAVY = (
    "asyncio",
    "confluent_kafka",
    "multiprocessing",
    "numpy",
    "pyspark",
    "scramp",
    "ssl",
    "subprocess",
    "tenacity",
)


def modules_after(statement: str) -> set[str]:
    """Names the modules that a new interpreter has after one statement."""
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sorted(sys.modules), sep='\\n')"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["groupsdk", "assignors"])
def test_importing_a_package_imports_nothing_heavy(package: str) -> None:
    before = modules_after("pass")
    after = modules_after(f"import {package}")

    assert package in after
    # site-packages may hold a plug-in that imports at every start: that is not ours
    heavy = (after - before) & set(HEAVY)
    assert not heavy, (
        f"import {package} imports {sorted(heavy)}: import inside the function instead"
    )


def test_importing_the_package_imports_no_message() -> None:
    # neither a member's own nor the many of a broker: each is imported when it is used
    names = modules_after("import groupsdk")

    assert not [name for name in names if name.startswith("groupsdk.wire.messages.")]


def test_a_heavy_import_would_be_seen() -> None:
    assert "asyncio" in modules_after("import asyncio") - modules_after("pass")
