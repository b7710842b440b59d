"""Holds the cost of `import groupsdk`: nothing heavy is imported before it is used."""

import subprocess
import sys

import pytest

import groupsdk


# All but those that run a member: whoever asks for these gets the engine with them, so that a start waits for no import.
MEMBERS = {
    *("AbstractCoordinator", "AsyncAbstractCoordinator", "AsyncGroupMember", "GroupMember"),
    *("AsyncShardWorker", "LeaderElection", "ShardWorker"),
}
# A broker, a directory and a term come without a member.
OTHERS = {"AsyncShardDirectory", "EmbeddedBroker", "ShardDirectory", "Term"}
VALUES = f"from groupsdk import {', '.join(sorted(set(groupsdk.__all__) - MEMBERS - OTHERS))}"

# What a user who only reads `groupsdk.Generation` must not pay for, or may not have installed.
HEAVY = (
    "asyncio",
    "click",
    "confluent_kafka",
    "multiprocessing",
    "numpy",
    "pyspark",
    "rich",
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


@pytest.mark.parametrize("statement", ["import groupsdk", VALUES, "import assignors"])
def test_an_import_imports_nothing_heavy(statement: str) -> None:
    before = modules_after("pass")
    after = modules_after(statement)

    assert statement.split()[1] in after
    # site-packages may hold a plug-in that imports at every start: that is not ours
    heavy = (after - before) & set(HEAVY)
    assert not heavy, f"{statement} imports {sorted(heavy)}: import inside the function instead"


def test_importing_the_values_imports_no_message() -> None:
    # neither a member's own nor the many of a broker: each is imported when it is used
    names = modules_after(VALUES)

    assert "groupsdk.coordinator" in names
    assert not [name for name in names if name.startswith("groupsdk.wire.messages.")]


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_a_member_is_imported_with_its_engine(name: str) -> None:
    names = modules_after(f"from groupsdk import {name}")

    assert "groupsdk.drivers.engine.engine" in names
    assert not names & {"click", "confluent_kafka", "multiprocessing", "numpy", "rich", "scramp"}


def test_all_of_the_package_imports_nothing_that_may_not_be_there() -> None:
    names = modules_after("from groupsdk import *")

    assert not names & {"click", "confluent_kafka", "numpy", "pyspark", "rich", "scramp"}


def test_a_part_does_not_import_the_others() -> None:
    parts = ("groupsdk.member", "groupsdk.drivers", "groupsdk.consumer", "groupsdk.history")
    names = modules_after("import groupsdk.broker.embedded")

    assert "groupsdk.broker.embedded" in names
    assert not [name for name in names if name.startswith(parts)]


def test_a_command_imports_only_what_it_needs() -> None:
    names = modules_after("from groupsdk.cli.main import main; main(['--help'])")

    assert "groupsdk.cli.main" in names
    assert not names & {"rich", "asyncio", "groupsdk.cli.groups", "groupsdk.broker.settings.table"}


def test_a_broker_without_consumer_groups_does_not_pay_for_them() -> None:
    start = "from groupsdk.broker.embedded import EmbeddedBroker; broker = EmbeddedBroker(topics={'t': 1}); broker.start()"
    names = modules_after(f"{start}; broker.stop()")
    assert "groupsdk.broker.server.broker" in names
    ours = (
        "groupsdk.broker.coordinator.consumer",
        "groupsdk.broker.coordinator.group",
        "assignors",
        # nor does one that has served no request pay for what reads and writes
        *(
            "groupsdk.broker.log.segment",
            "groupsdk.wire.compiler",
            "groupsdk.wire.coordinator_records",
        ),
    )
    assert not [name for name in names if name.startswith(ours)]
    # nor does a classic group pay for hashes, expressions and assignors of members
    classic = "from tests.broker.clients import connect, join; join(connect(broker), 'g')"
    names = modules_after(f"{start}; {classic}; broker.stop()")
    assert "groupsdk.broker.coordinator.group.shard" in names
    assert not names & {"xxhash", "re2", "assignors", "assignors.registry"}


def test_a_heavy_import_would_be_seen() -> None:
    assert "asyncio" in modules_after("import asyncio") - modules_after("pass")


_MEMBER = """
import sys
import threading

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer

imported = []


def watch(event, arguments):
    if event == "import" and threading.current_thread().name == "groupsdk-g":
        imported.append(arguments[0])


sys.addaudithook(watch)
with EmbeddedBroker(topics={"t": 1}) as broker:
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "group.protocol": PROTOCOL}
    with GroupConsumer(config) as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        assert "groupsdk-g" in [each.name for each in threading.enumerate()]
print(*imported)
"""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_thread_that_heartbeats_imports_nothing(protocol: str) -> None:
    """A Ctrl-C that interrupts an import elsewhere can leave the import lock held: that thread would stop."""
    program = _MEMBER.replace("PROTOCOL", repr(protocol))
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert not done.stdout.split()


def test_a_history_of_files_imports_no_connection() -> None:
    pytest.importorskip("pyarrow")
    parts = ("local", "report.page", "sources.archive_files", "sources.segment_files")
    statement = f"import {', '.join(f'groupsdk.history.{part}' for part in parts)}"
    names = modules_after(f"{statement}, groupsdk.cli.history_options")

    assert "groupsdk.verdict" in names
    assert not {"groupsdk.admin.cluster", "groupsdk.drivers"} & names
