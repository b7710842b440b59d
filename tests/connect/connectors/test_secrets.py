"""Holds that secrets of configurations are neither stored resolved, nor shown, nor logged."""

import json
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from groupsdk.connect.app import Worker
from groupsdk.connect.connectors.secrets import (
    MASK,
    NO_PROVIDERS,
    ConfigProviders,
    conceal,
    has_variables,
    masked,
    unmasked,
)
from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.tasks.task import Connector, Host, Task, TaskContext
from groupsdk.errors import ConfigError
from tests.connect.rest.test_api import Client, served
from tests.connect.workers import eventually


SECRET = "hunter2'\\s own"


class Using(Connector):
    """One task, which says to its test what it is given, and then raises with it."""

    secrets = ("pin",)
    seen: ClassVar[list[tuple[str, Any]]] = []

    @classmethod
    @override
    def validate(cls, config: Any) -> None:
        if config.get("refuse"):
            raise ConnectorConfigError("refuse", f"no {config['db.password']!r}")

    @override
    def plan(self) -> Iterable[Task]:
        password = self.config["db.password"]
        return [Task("only", {"url": f"db://u:{password}@h", "deep": [{"api_key": password}]})]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        self.seen.append((self.config["db.password"], task.payload))
        context.attempt("record", self._write)

    def _write(self, _: str) -> None:
        raise OSError(f"wrong password: {self.config['db.password']!r}, pin {self.config['pin']}")


class UsingApart(Using):
    """The same, in a process."""

    host: ClassVar[Host] = "process"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A worker that is alone, keeps everything in a file, has all providers, and answers."""
    monkeypatch.setenv("SECRET_OF_TEST", SECRET)
    Using.seen.clear()
    app = Worker(task_restart_max=0, config_providers="file,env,directory")
    app.connector(Using)
    app.connector(UsingApart)
    worker = app.start_standalone(tmp_path / "kept")
    with served(worker) as client:
        yield client
    assert worker.stop(60)


def config(password: str, kind: str = "Using") -> dict[str, str]:
    """A configuration with this password."""
    return {
        "connector.class": kind,
        "db.password": password,
        "pin": "98765",
        "connection.url": "postgresql://u:sesame@h/d",
        "errors.log.enable": "true",
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["Using", "UsingApart"])
@pytest.mark.parametrize("password", ["${env:SECRET_OF_TEST}", SECRET])
def test_no_answer_status_or_log_has_a_secret(
    ask: Client, caplog: pytest.LogCaptureFixture, tmp_path: Path, kind: str, password: str
) -> None:
    caplog.set_level(logging.DEBUG)
    said = [ask("PUT", "/connectors/c/config", config(password, kind))]

    def failed() -> bool:
        tasks = ask("GET", "/connectors/c/status")[1]["tasks"]
        return bool(tasks) and tasks[0]["state"] == "FAILED"

    eventually(failed)
    paths = ("", "/config", "/status", "/tasks", "/tasks/0/status")
    said += [ask("GET", f"/connectors/c{path}") for path in paths]
    said.append(ask("GET", "/connectors?expand=info&expand=status"))
    refused = {**config(password, kind), "refuse": "yes"}
    said.append(ask("PUT", "/connectors/c/config", refused))
    said.append(ask("PUT", f"/connector-plugins/{kind}/config/validate", refused))
    assert [code for code, _ in said] == [201, *[200] * 6, 400, 200]
    shown = json.dumps(said) + "".join(each.getMessage() for each in caplog.records)
    for secret in ("hunter2", "98765", "sesame"):
        assert secret not in shown
    assert "wrong password: " in shown
    kept = (tmp_path / "kept").read_text()
    # what was given as a variable is kept as one
    assert ("hunter2" in kept) is (password == SECRET)
    if kind == "Using":
        assert Using.seen[-1] == (
            SECRET,
            {"url": f"db://u:{SECRET}@h", "deep": [{"api_key": SECRET}]},
        )


def test_masked_configuration_can_be_put_back(ask: Client) -> None:
    assert ask("PUT", "/connectors/c/config", config(SECRET))[0] == 201
    _, shown = ask("GET", "/connectors/c/config")
    assert (shown["db.password"], shown["pin"]) == (MASK, MASK)
    assert shown["connection.url"] == f"postgresql://u:{MASK}@h/d"
    assert ask("PUT", "/connectors/c/config", {**shown, "note": "x"})[0] == 200
    eventually(lambda: len(Using.seen) >= 1)
    assert ask("POST", "/connectors/c/tasks/0/restart")[0] == 204
    eventually(lambda: len(Using.seen) >= 2)
    assert {password for password, _ in Using.seen} == {SECRET}
    # a mask for what is not kept is refused
    code, said = ask("PUT", "/connectors/d/config", shown | {"name": "d"})
    assert (code, MASK in said["message"]) == (400, True)


def test_the_providers_of_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    allowed.mkdir()
    other.mkdir()
    (allowed / "my.properties").write_text("user=alice\npassword = s=1\n")
    (allowed / "bad.properties").write_text("hunter2=\\u12")
    (allowed / "token").write_text("t0ken\n")
    (other / "token").write_text("else")
    (allowed / "link").symlink_to(other / "token")
    (allowed / "long").write_bytes(b"x" * 1_000_001)
    monkeypatch.setenv("DB_USER", "bob")
    monkeypatch.setenv("OTHER", "else")
    settings = {
        "config.providers": "file, dir, env",
        "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": str(allowed),
        "config.providers.env.param.allowlist.pattern": "DB_.*",
    }
    providers = ConfigProviders.take(settings)
    assert settings == {}

    def resolved(value: str) -> str:
        return providers.resolve({"k": value}).config["k"]

    assert resolved(f"a ${{file:{allowed}/my.properties:password}} b") == "a s=1 b"
    assert resolved(f"${{dir:{allowed}:token}}${{env:DB_USER}}") == "t0ken\nbob"
    # what names no provider is left as it is, as in Kafka
    assert resolved("${topic} ${x:y}") == "${topic} ${x:y}"
    for wrong, text in (
        (f"${{file:{allowed}/none:x}}", "No such file"),
        (f"${{file:{allowed}/my.properties:x}}", "there is no such value"),
        (f"${{file:{allowed}/bad.properties:x}}", "not a properties file$"),
        (f"${{dir:{other}:token}}", "not allowed by allowed.paths"),
        (f"${{dir:{allowed}:link}}", "not allowed by allowed.paths"),
        (f"${{dir:{allowed}:../other/token}}", "the name of a file in the directory"),
        (f"${{dir:{allowed}:long}}", "more than 1000000 bytes"),
        ("${env:OTHER}", "not allowed by allowlist.pattern"),
        ("${env:DB_NONE}", "there is no such value"),
        ("${directory:/x:y}", "set config.providers=directory"),
    ):
        with pytest.raises(ConnectorConfigError, match=text) as refused:
            resolved(wrong)
        assert refused.value.field == "k"
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class must be one of"):
        ConfigProviders.take({"config.providers": "vault"})


def test_secret_settings_are_masked() -> None:
    config = {"a.password": "x", "tokens": "y", "password.file": "z", "s": "${env:X}", "n": "1"}
    assert masked(config, ("s", "n")) == config | {"a.password": MASK, "tokens": MASK, "n": MASK}
    assert unmasked({"a.password": MASK}, config) == {"a.password": "x"}
    with pytest.raises(ConnectorConfigError):
        unmasked({"n": MASK}, config)
    assert conceal("a 'x\\'y' b", ["x'y", "b"]) == "a 'x\\'y' b"
    assert conceal("a sesame, a", ["sesame", "a"]) == f"a {MASK}, a"
    assert has_variables({"k": "a${env:X}"})
    assert not has_variables({"k": "${x:Y}"})


KAFKAS: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""Of its `ConfigTransformer`."""


@given(st.lists(st.sampled_from(["${", "}", ":", "env", "X", "$", "{", "file"])).map("".join))
def test_variables_are_found_where_kafka_finds_them(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("X", "env", "file"):
            patch.setenv(name, f"[{name}]")
        try:
            resolved = ConfigProviders.take({"config.providers": "env"}).resolve({"k": text})
        except ConnectorConfigError:
            assert any(each[1] in ("env", "file", "directory") for each in KAFKAS.finditer(text))
        else:
            expected = KAFKAS.sub(lambda m: f"[{m[4]}]" if m[1] == "env" else m[0], text)
            assert resolved.config == {"k": expected}


@pytest.mark.timeout(60)
def test_a_megabyte_of_broken_variables_is_read_once() -> None:
    # read from each "${" to the end, it would take the better part of an hour
    for part in ("${", "${env:", "${a:b"):
        for end in ("", "}"):
            config = {"k": part * (1_000_000 // len(part)) + end}
            assert NO_PROVIDERS.resolve({"k": config["k"].replace("env", "x")}).config
            assert has_variables(config) == (part == "${env:" and end == "}")


@pytest.mark.parametrize("depth", [600, 100_000])
def test_a_payload_that_is_nested_too_deep_is_hidden(depth: int) -> None:
    assert masked({"task.payload": "[" * depth + "]" * depth}) == {"task.payload": MASK}
