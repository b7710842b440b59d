"""Tests the fixture that gives a test a broker, in a pytest of its own."""

import subprocess
import sys
from pathlib import Path

from _pytest.assertion.rewrite import AssertionRewritingHook

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import pytest_plugin


TESTS = """
import socket

import pytest


def connects(servers):
    host, port = servers.split(",")[0].split(":")
    socket.create_connection((host, int(port))).close()
    return True


def test_plain(kafka_broker):
    assert connects(kafka_broker.bootstrap_servers)


@pytest.mark.kafka_broker({"group.max.size": 3}, topics={"orders": 3}, nodes=2)
def test_marked(kafka_broker):
    assert connects(kafka_broker.bootstrap_servers)
    assert len(kafka_broker.bootstrap_servers.split(",")) == 2
    assert kafka_broker.leader("orders", 2) in {1, 2}
    assert kafka_broker.config.group_max_size == 3


@pytest.mark.kafka_broker(nodes=0)
def test_wrong(kafka_broker):
    pass
"""


def test_a_test_gets_the_broker_that_it_asks_for(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pytest"),  # which finds the plugin by its entry point
        *("-p", "no:cacheprovider", "--strict-markers", "-rE", str(tmp_path)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "2 passed, 1 error" in done.stdout
    assert "nodes must be at least 1" in done.stdout


def test_pytest_does_not_rewrite_the_library(kafka_broker: EmbeddedBroker) -> None:
    # It would parse each module on the thread that imports it, which Python 3.11 cannot do on two threads at once.
    assert kafka_broker.bootstrap_servers
    # these are imported before the plugin has a say, on the main thread
    first = {
        "groupsdk",
        "groupsdk.lazy_imports",
        "groupsdk.testing",
        "groupsdk.version",
        pytest_plugin.__name__,
    }
    loaded = {
        name: module.__spec__.loader
        for name, module in sys.modules.items()
        if name.split(".")[0] in {"groupsdk", "assignors"} and module.__spec__ is not None
    }
    rewritten = {
        name for name, loader in loaded.items() if isinstance(loader, AssertionRewritingHook)
    }
    assert len(loaded) > 50
    assert rewritten <= first
