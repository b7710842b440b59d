"""Test the HTTP endpoint of `groupsdk run --health`."""

import json
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.health import HealthServer, health
from groupsdk.cli.run import RunOptions, runnable
from groupsdk.errors import ConfigError
from groupsdk.types import NO_GENERATION
from tests.cli.peers import Shards
from tests.cli.test_run import connection


pytestmark = pytest.mark.timeout(300)


def test_health_describes_the_member(broker: EmbeddedBroker, group_id: str) -> None:
    member = Shards(bootstrap_servers=broker.bootstrap_servers, group_id=group_id)
    running = runnable(member, "m:member", connection(broker), RunOptions())
    server = HealthServer("127.0.0.1:0", running)
    server.start()

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{server.port}{path}", timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    try:
        assert member.ensure_active_group(60)
        status, text = get("/health")
        shown = json.loads(text)
        assert (status, shown["status"], shown["state"]) == (200, "up", "stable")
        assert (shown["group"], shown["member"]) == (group_id, member.member_id())
        status, text = get("/metrics")
        assert status == 200
        assert f'groupsdk_member_stable{{group="{group_id}"}} 1.0' in text
        assert get("/other")[0] == 404
        assert (get("/health/live")[0], get("/health/ready")[0]) == (200, 200)
        member.leave_group("for the test")
        assert (get("/health/live")[0], get("/health/ready")[0]) == (200, 503)
        with pytest.raises(ConfigError, match="--health: cannot listen on 127"):
            HealthServer(f"127.0.0.1:{server.port}", running).start()
    finally:
        server.stop()
        member.close()
    for address in ("8080", "h:", "h:99999"):
        with pytest.raises(ConfigError, match="--health must be HOST:PORT"):
            HealthServer(address, running)


def test_health_beyond_loopback_is_served_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    running: Any = SimpleNamespace(families=list)
    with HealthServer("0.0.0.0:0", running) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == b""
    assert "--health 0.0.0.0: it can be reached from the network without a password" in caplog.text


def test_a_member_in_trouble_is_not_well() -> None:
    snapshot: Any = SimpleNamespace(
        trouble="no broker",
        group_id="g",
        member_id="",
        generation=NO_GENERATION,
        state=SimpleNamespace(name="UNJOINED"),
        stable=False,
        coordinator=None,
    )
    well, shown = health(snapshot)
    assert (well, shown["status"], shown["trouble"]) == (False, "down", "no broker")
