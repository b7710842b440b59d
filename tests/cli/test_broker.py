"""Tests the command that runs a broker: its options, and a process of its own from start to SIGTERM."""

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pytest_mock import MockerFixture

from groupsdk.cli.broker import BrokerOptions, broker_of, read_users
from groupsdk.cli.command import ExitCode
from groupsdk.cli.main import main
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, batch, end_offset, join, produce
from tests.examples.process import ExampleProcess
from tests.support.cases import each_case


def options(mocker: MockerFixture, *argv: str) -> BrokerOptions:
    """Reads options as the command does."""
    made = mocker.patch("groupsdk.cli.broker.broker_of", side_effect=GroupSdkError("enough"))
    assert main(["broker", *argv]) == 1
    found: BrokerOptions = made.call_args.args[0]
    mocker.stop(made)
    return found


def test_the_options_become_settings(tmp_path: Path, mocker: MockerFixture) -> None:
    (tmp_path / "users").write_text("# ours\nalice:a:b\n\n", encoding="utf-8")
    (tmp_path / "file").write_text("group.max.size = 5\nnum.partitions=2\n", encoding="utf-8")
    broker, topics = broker_of(
        options(
            mocker,
            *("--listen", "127.0.0.1:0", "--advertise", "proxy:1,proxy:2", "--nodes", "2"),
            *("--topic", "a:3", "--topic", "b", "--users", str(tmp_path / "users")),
            *(
                "--properties",
                str(tmp_path / "file"),
                "--set",
                "num.partitions=4",
                "--set",
                "group.min.session.timeout.ms=7",
            ),
        )
    )
    assert topics == {"a": 3, "b": 1}
    assert broker.config.listeners == "SASL_PLAINTEXT://127.0.0.1:0"
    assert broker.config.advertised_listeners == "SASL_PLAINTEXT://proxy:1,SASL_PLAINTEXT://proxy:2"
    assert (broker.config.group_max_size, broker.config.num_partitions) == (5, 4)
    assert broker.config.group_initial_rebalance_delay_ms == 0
    assert broker.config.group_min_session_timeout_ms == 7
    assert read_users(tmp_path / "users") == {"alice": "a:b"}


def test_certificates_turn_tls_on(mocker: MockerFixture) -> None:
    broker, _ = broker_of(
        options(
            mocker, "--tls-certificate", "c.pem", "--tls-key", "k.pem", "--tls-client-ca", "ca.pem"
        )
    )
    config = broker.config
    assert config.listeners.startswith("SSL://")
    assert (config.ssl_keystore_location, config.ssl_key_location) == ("c.pem", "k.pem")
    assert (config.ssl_truststore_location, config.ssl_client_auth) == ("ca.pem", "required")


@each_case(
    ("argv", "text"),
    [
        (("--topic", "a:x"), "the number of partitions must be a positive integer"),
        (("--topic", "a:0"), "the number of partitions must be a positive integer"),
        (("--set", "group.max.size"), "KEY=VALUE"),
        (("--set", "group.max.sise=1"), "did you mean group.max.size"),
        (("--config", "no-such-file"), "no-such-file cannot be read"),
        (("--tls-key", "k.pem"), "--tls-certificate"),
        (("--nodes", "0"), "nodes must be at least 1"),
    ],
)
def test_wrong_options_are_named(
    argv: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", *argv]) == 2
    assert text in capsys.readouterr().err


def test_a_wrong_file_is_named_without_its_secrets(tmp_path: Path) -> None:
    path = tmp_path / "users"
    for content in ("alice\n", ":secret\n", "alice:\n", ""):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            read_users(path)
        assert "secret" not in str(caught.value)


def run(*argv: str) -> ExampleProcess:
    """Starts the command in a process of its own."""
    return ExampleProcess("-m", "groupsdk", "broker", "--listen", "127.0.0.1:0", *argv)


def port_of(process: ExampleProcess) -> int:
    """Waits for the line that tells where it listens."""
    return int(process.wait_for(r"listening on PLAINTEXT://127\.0\.0\.1:(\d+)")[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_broker_command_runs_until_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    for expected in (1, 2):
        with run("--data-dir", str(tmp_path), "--topic", "t:2") as process:
            with Client(("127.0.0.1", port_of(process))) as client:
                topics = client.ask(MetadataRequest(None), 12).topics
                assert [(each.name, len(each.partitions)) for each in topics] == [("t", 2)]
                assert produce(client, "t", batch(b"v")).error_code == 0
                assert end_offset(client, "t") == expected
                assert process.end(number) == 0
            assert "stopped" in "\n".join(process.lines)
            assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_first_group_imports_no_coordinator_after_the_broker_has_started() -> None:
    # in a process of its own, where nothing else has imported them
    script = """
import sys
from importlib import import_module
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.broker import FIRST_GROUP
from groupsdk.consumer import GroupConsumer

with EmbeddedBroker(topics={"t": 1}) as broker:
    for name in FIRST_GROUP:
        import_module(name)
    known = set(sys.modules)
    for protocol in ("classic", "consumer"):
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": protocol}
        consumer = GroupConsumer({**settings, "group.protocol": protocol})
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.close()
print(*(name for name in set(sys.modules) - known if "coordinator" in name or "_groups" in name))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == []


def test_what_survives_a_full_collection_is_exempt_from_the_next() -> None:
    program = """
import gc
from groupsdk.cli.broker import limit_collections
limit_collections()
kept, before = [[] for _ in range(1_000)], gc.get_freeze_count()
gc.collect(1)
assert gc.get_freeze_count() <= before
gc.collect()
assert gc.get_freeze_count() >= before + 1_000
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_signal_has_it_log_its_groups() -> None:
    with run() as process:
        with Client(("127.0.0.1", port_of(process))) as client:
            member = join(client, "g").member_id
            process.send(signal.SIGUSR1)
            assert client.ask(MetadataRequest(None), 12).brokers
            assert process.end(signal.SIGTERM) == 0
        log = "\n".join(process.lines)
        assert "NumGroups=1, NumOffsets=0" in log
        assert "group=g generation=1: Stable since" in log
        assert f"members {member} (joined " in log


def test_acknowledged_records_survive_a_kill_of_the_broker_command(tmp_path: Path) -> None:
    with (
        run("--data-dir", str(tmp_path), "--topic", "t") as process,
        Client(("127.0.0.1", port_of(process))) as client,
    ):
        for _ in range(20):
            assert produce(client, "t", batch(b"v")).error_code == 0
        process.end(signal.SIGKILL)
    with (
        run("--data-dir", str(tmp_path)) as again,
        Client(("127.0.0.1", port_of(again))) as client,
    ):
        assert end_offset(client, "t") == 20


def test_a_page_shows_the_groups_and_metrics_count_them() -> None:
    with run("--web", "127.0.0.1:0") as process:
        url = process.wait_for("^the page is at.* (\\S+)$")[1]
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert b"<title>Groups</title>" in answer.read()
        with urllib.request.urlopen(url + "metrics", timeout=60) as answer:
            families = {
                each.name: each for each in text_string_to_metric_families(answer.read().decode())
            }
        assert families["groupsdk_broker_num_groups"].samples[0].value == 0
        assert process.end(signal.SIGTERM) == 0, process.lines


def test_a_page_of_a_broker_with_users_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_text("alice:secret\n", encoding="utf-8")
    users = str(tmp_path / "users")
    assert main(["broker", "--users", users, "--web", "127.0.0.1:0"]) == ExitCode.WRONG_USE
    assert "start `groupsdk watch --web` beside it" in capsys.readouterr().err
