"""Tests what `groupsdk broker` says when it cannot start: which option, what is wrong, what would be right."""

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.survival.mounts import mounted
from tests.survival.processes import BrokerProcess, command


_LIMIT_S = 100


def fails(*arguments: Any, **keywords: Any) -> tuple[int, str]:
    """Runs a broker that cannot start; returns its exit status and what it said."""
    done = subprocess.run(
        command(*arguments, **keywords),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.stdout == ""
    # a clear text, not the inside of the program
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"settings": {"group.max.sice": 3}}, "unknown broker setting group.max.sice; did you mean group.max.size?"),
        ({"settings": {"group.max.size": "many"}}, "group.max.size must be an integer, not 'many'"),
        ({"settings": {"group.max.size": 0}}, "group.max.size must be from 1 to"),
        ({"settings": {"default.replication.factor": 3}}, "default.replication.factor must be from 1 to 1, the number of nodes, not 3"),
        ({"listen": "localhost"}, "--listen must be HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:9092, not 'localhost'"),
        ({"listen": "127.0.0.1:70000"}, "--listen must be HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:9092, not '127.0.0.1:70000'"),
        ({"listen": "0.0.0.0:0"}, "open to the network with PLAINTEXT: listen on 127.0.0.1, or"),
        ({"listen": "nobody.invalid:0"}, "open to the network"),
        ({"topics": ["t:none"]}, "--topic t:none: the number of partitions must be a positive integer, not 'none'"),
        ({"topics": ["t:0"]}, "--topic t:0: the number of partitions must be a positive integer, not '0'"),
        ({"topics": ["a b"]}, "the topic 'a b': "),
        ({"topics": [""]}, "the topic '': "),
        ({"topics": ["t:1000000000"]}, "the topic 't': the number of partitions must be an integer from 1 to 10000, not 1000000000"),
        ({"options": ["--config", "group.max.size"]}, "--config group.max.size cannot be read"),
        ({"options": ["--nodes", "0"]}, "nodes must be at least 1, not 0"),
        ({"options": ["--nodes", "x"]}, "Invalid value for '--nodes': 'x' is not a valid integer"),
        ({"options": ["--no-such-option"]}, "No such option '--no-such-option'"),
        ({"options": ["--tls-key", "key.pem"]}, "--tls-key and --tls-client-ca need --tls-certificate"),
        ({"options": ["--tls-certificate", "/nowhere/cert.pem"]}, "/nowhere/cert.pem"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named(keywords: dict[str, Any], said: str) -> None:
    status, text = fails(**keywords)
    assert said in text
    assert status == 2, text


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for option in ("--users", "--properties"):
        status, text = fails(options=[option, str(tmp_path / "none")])
        assert str(tmp_path / "none") in text
        assert status != 0


def test_a_line_without_a_password_is_named_and_not_shown(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:secret\ngeheim\n")

    status, text = fails(options=["--users", str(users)])

    assert f"{users}, line 2: not of the form name:password" in text
    assert "geheim" not in text
    assert status == 2


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, text = fails(listen=address)
    assert (
        f"the listener PLAINTEXT cannot listen on {address}: [Errno 98] Address already in use"
        in text
    )
    assert status == 2


def test_a_data_directory_in_use_names_its_holder(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as holder:
        status, text = fails(tmp_path)
        assert str(tmp_path) in text
        assert f"groupsdk broker, pid {holder.pid}" in text
        assert status == 1
        # and the holder goes on
        assert holder.stop() == 0
    with BrokerProcess(tmp_path) as next_one:
        assert next_one.stop() == 0


def test_the_lock_of_a_killed_broker_is_free(tmp_path: Path) -> None:
    for _ in range(2):
        with BrokerProcess(tmp_path) as killed:
            killed.kill()


def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    status, text = fails(file)
    assert str(file) in text
    assert status == 1


def test_a_data_directory_of_others_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=7\n")
    (tmp_path / "catalogue.sqlite").write_bytes(b"no catalogue" * 100)

    status, text = fails(tmp_path)

    assert f"the catalogue {tmp_path}/catalogue.sqlite: file is not a database" in text
    assert status == 1
    assert (tmp_path / "catalogue.sqlite").read_bytes() == b"no catalogue" * 100


def test_a_read_only_data_directory_is_named(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, topics=["t:1"]) as first:
        assert first.stop() == 0
    with mounted(tmp_path, "ro"):
        status, text = fails(tmp_path)
    assert str(tmp_path) in text
    assert "Read-only file system" in text
    assert status == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_broker_ends_in_order_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with BrokerProcess(tmp_path, topics=["t:1"]) as process, process.connect() as client:
        os.kill(process.pid, number)
        process.wait_for("stopped")
        assert client.is_closed()
        assert process.wait() == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
