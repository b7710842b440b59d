"""Holds who is let in."""

import asyncio
import base64
import ipaddress
from types import SimpleNamespace

from starlette.types import Message

from groupsdk.http.access import BasicAuthentication, JsonAnswer, PasswordBrake
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import Client
from tests.http.serving import serving


def test_only_who_knows_the_password_gets_in() -> None:
    with serving(user="alice", password="pass") as server:
        ask = Client(server)
        assert ask("GET", "/connectors")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic YWxpY2U6d3Jvbmc=")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic !")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic YWxpY2U6cGFzcw==") == (200, [])


def test_a_probe_needs_no_password_and_learns_no_reason() -> None:
    with serving(user="alice", password="pass") as server:
        ask = Client(server)
        for path in ("/health", "/health/live"):
            assert ask("GET", path) == (200, {"status": "healthy", "message": ""})
            assert ask("POST", path)[0] == 401
            assert ask("GET", path, Authorization="Basic YWxpY2U6d3Jvbmc=")[0] == 401
            code, known = ask("GET", path, Authorization="Basic YWxpY2U6cGFzcw==")
            assert code == 200
            assert known["message"]
        assert ask("GET", "/health/liver")[0] == 401


class Gate:
    """An application behind a password, in virtual time: what sleeps is woken by `pass_time`."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(at_ms=1_000)
        self.clock.now_ms = lambda: self.clock.at_ms
        self.brake = PasswordBrake(self.clock)
        self.delays: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Event]] = []
        settings = HttpSettings(port=0, user="alice", password="pass")
        self._app = BasicAuthentication(
            JsonAnswer({}), settings, brake=self.brake, sleep=self._sleep
        )

    async def _sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self.delays.append(seconds)
        self._sleepers.append((self.clock.at_ms + 1_000 * seconds, woken))
        await woken.wait()

    async def pass_time(self, seconds: float) -> None:
        """Lets everything run that can, then moves the clock and wakes what is due."""
        await settle()
        self.clock.at_ms += int(1_000 * seconds)
        for until, woken in self._sleepers:
            if until <= self.clock.at_ms:
                woken.set()
        await settle()

    async def ask(self, password: str, address: str = "192.0.2.1", user: str = "alice") -> int:
        """Sends a request, and returns the status of its answer."""
        token = base64.b64encode(f"{user}:{password}".encode())
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/connectors",
            "query_string": b"",
            "headers": [(b"authorization", b"Basic " + token)],
            "client": (address, 1),
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return int(sent[0]["status"])

    def later(self, password: str, address: str = "192.0.2.1") -> "asyncio.Task[int]":
        """Sends a request without waiting for its answer."""
        return asyncio.ensure_future(self.ask(password, address))


async def settle() -> None:
    """Lets every task run until all of them wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def guess(gate: Gate, count: int) -> None:
    """Sends so many passwords, each another one, and waits for the answer to each."""
    for number in range(count):
        asked = gate.later(f"guess-{len(gate.delays)}-{number}")
        await settle()
        await gate.pass_time(0 if asked.done() else gate.delays[-1])
        assert await asked == 401


async def test_the_right_password_behind_the_address_of_a_guesser_is_late_and_accepted() -> None:
    gate = Gate()
    await guess(gate, 20)
    assert gate.delays == sorted(gate.delays)
    assert (gate.delays[0], gate.delays[-1]) == (1.0, 8.0)
    asked, elsewhere = gate.later("pass"), gate.later("pass", "192.0.2.2")
    await settle()
    assert elsewhere.done(), "another address does not wait"
    assert not asked.done(), "an answer at once would tell a guesser that the others are wrong"
    await gate.pass_time(8)
    assert (await asked, await elsewhere) == (200, 200)
    # the right one ends nothing, since the guesser may go on
    asked = gate.later("pass")
    await settle()
    assert not asked.done()
    await gate.pass_time(60)
    assert await asked == 200
    assert await gate.ask("pass") == 200, "the wrong ones are forgiven in time"


async def test_a_program_with_an_old_password_slows_nobody_down() -> None:
    gate = Gate()
    assert [await gate.ask("old") for _ in range(50)] == [401] * 50
    assert await gate.ask("pass") == 200
    assert gate.delays == []


async def test_guesses_at_a_time_are_limited_by_address() -> None:
    gate = Gate()
    await guess(gate, 5)
    asked = [gate.later(f"more-{number}") for number in range(20)]
    await gate.pass_time(0)
    assert [await each for each in asked if each.done()] == [429] * 12
    await gate.pass_time(8)
    assert sorted([await each for each in asked]) == [401] * 8 + [429] * 12
    assert gate.brake.delay_s("192.0.2.1") == 8.0


def test_delays_are_by_network_and_the_networks_are_limited() -> None:
    gate = Gate()
    brake = gate.brake
    for number in range(5):
        brake.wrong(f"2001:db8::{number}", f"guess {number}")
    assert brake.delay_s("2001:db8::ffff") == 1.0
    assert brake.is_known("2001:db8::7", "guess 3")
    assert brake.delay_s("2001:db8:0:1::") == 0.0
    # what a proxy forwards may be no address
    for number in range(5):
        brake.wrong(f"client-{number}", f"guess {number}")
    assert brake.delay_s("another") == 1.0
    for number in range(10_001):
        brake.wrong(str(ipaddress.IPv4Address(number)), "guess")
    assert len(brake._guessers) == 10_000
