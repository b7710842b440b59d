"""Holds who is let in."""

from types import SimpleNamespace

from groupsdk.connect.rest.api import RestServer
from groupsdk.http.access import PasswordBrake
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import Client
from tests.connect.workers import standalone


def test_only_who_knows_the_password_gets_in() -> None:
    with standalone() as worker:
        server = RestServer(worker, HttpSettings(port=0, user="alice", password="pass"))
        server.start()
        ask = Client(server)
        assert ask("GET", "/connectors")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic YWxpY2U6d3Jvbmc=")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic !")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic YWxpY2U6cGFzcw==") == (200, [])
        server.stop()


def test_a_probe_needs_no_password_and_learns_no_reason() -> None:
    with standalone() as worker:
        server = RestServer(worker, HttpSettings(port=0, user="alice", password="pass"))
        server.start()
        ask = Client(server)
        for path in ("/health", "/health/live"):
            assert ask("GET", path) == (200, {"status": "healthy", "message": ""})
            assert ask("POST", path)[0] == 401
            assert ask("GET", path, Authorization="Basic YWxpY2U6d3Jvbmc=")[0] == 401
            code, known = ask("GET", path, Authorization="Basic YWxpY2U6cGFzcw==")
            assert code == 200
            assert known["message"]
        assert ask("GET", "/health/liver")[0] == 401
        server.stop()


def test_guesses_have_to_wait_and_the_right_password_does_not_show() -> None:
    right, wrong = "Basic YWxpY2U6cGFzcw==", "Basic YWxpY2U6d3Jvbmc="
    with standalone() as worker:
        server = RestServer(worker, HttpSettings(port=0, user="alice", password="pass"))
        server.start()
        ask = Client(server)
        for _ in range(4):
            assert ask("GET", "/connectors", Authorization=wrong)[0] == 401
        # a right one among them ends the count
        assert ask("GET", "/connectors", Authorization=right)[0] == 200
        codes = [ask("GET", "/connectors", Authorization=wrong)[0] for _ in range(40)]
        assert codes[:5] == [401] * 5
        assert codes.count(429) > 20
        # requests that guess nothing are answered as before
        assert ask("GET", "/connectors")[0] == 401
        server.stop()


def test_the_wait_grows_by_address_and_is_forgotten() -> None:
    clock = SimpleNamespace(at_ms=0)
    clock.now_ms = lambda: clock.at_ms
    brake = PasswordBrake(clock)
    waits = []
    for _ in range(15):
        brake.wrong("192.0.2.1")
        waits.append(brake.wait_s("192.0.2.1"))
        clock.at_ms += int(1_000 * waits[-1])
    assert waits == [0.0] * 4 + [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] + [60.0] * 5
    brake.wrong("192.0.2.1")
    assert brake.wait_s("192.0.2.2") == 0.0
    # one client has a whole network of IPv6
    for number in range(5):
        brake.wrong(f"2001:db8::{number}")
    assert brake.wait_s("2001:db8::ffff") == 1.0
    assert brake.wait_s("2001:db8:0:1::") == 0.0
    clock.at_ms += 1_000_000
    brake.wrong("192.0.2.1")
    assert brake.wait_s("192.0.2.1") == 0.0
    # no more is remembered than is sensible
    for number in range(10_001):
        brake.wrong(f"client-{number}")
    assert len(brake._wrong) == 10_000
