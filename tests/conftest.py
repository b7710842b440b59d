"""Real Kafka brokers for the tests that ask for one, and the marks of what each test starts."""

import asyncio
import contextlib
import faulthandler
import inspect
import logging
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from groupsdk.testing import LocalKafka, LocalKafkaError, MissingToolError, prepare
from groupsdk.testing.jvm import find_javac
from tests.support.brokers import KINDS, running_again, servers_of
from tests.support.missing import check_packages, lacking
from tests.support.proxy import FaultProxy


# How long an example takes, or its data to be drawn, is a matter of what else the machine does.
settings.register_profile("groupsdk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("groupsdk")

_KAFKA_TESTS = Path(__file__).parent / "kafka"
# What the fixtures start, by their names; a test that asks for one, through others too, gets the mark.
_MARK_OF_FIXTURE = {
    "kafka_installed": "kafka",  # every fixture below that starts a broker asks for it
    "kafka_class": "kafka",
    "_java": "kafka",
    "go_peer": "go",
    "spark": "spark",
}
# Only a test with a mark may start these.
_PROGRAMS = frozenset({"java", "javac", "spark-submit", "go"})
_MARKS = ("kafka", "spark", "go")
_LOOP_S = 120.0
"""How long a test that is a coroutine may take."""
_LIMITS: Final = 3
"""A test that its time limit did not end, since what cleans up after it waits for ever, ends its process after so many."""
_RUNNING = pytest.StashKey[pytest.Item | None]()
_MISSING = pytest.StashKey[LocalKafkaError]()


StartKafka = Callable[..., LocalKafka]
"""Start a broker of the test's own; takes the arguments of LocalKafka."""


def pytest_configure(config: pytest.Config) -> None:
    """Watch which programs the tests start, so that a mark cannot be forgotten."""
    if not hasattr(config, "workerinput"):  # once, and not in each process of xdist
        check_packages()
    config.stash[_RUNNING] = None
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # nohup, or a script's `&`, has the programs that tests start ignore Ctrl-C, too
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            _refuse_unmarked(config.stash[_RUNNING], arguments[1])

    sys.addaudithook(
        watch
    )  # there is no way to take it back; with the session it has no test to refuse


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run all tests of Spark in one worker: another session costs more than most of them."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            return "tests/spark" if scope.startswith("tests/spark/") else scope

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a test that is a coroutine on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), _LOOP_S))
    return True


def _refuse_unmarked(item: pytest.Item | None, command: Any) -> None:
    """Fail a test that starts a JVM or Go without the mark that says so: `make quick` would run it."""
    words = [command] if isinstance(command, (str, bytes, os.PathLike)) else list(command)
    program = Path(os.fsdecode(words[0])).name
    if (
        item is None or program not in _PROGRAMS or "-version" in words
    ):  # to find a JDK costs little
        return
    if not any(item.get_closest_marker(mark) for mark in _MARKS):
        pytest.fail(
            f"{item.nodeid} starts {program}: it needs one of the marks {', '.join(_MARKS)}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.config.stash[_RUNNING] = item
    faulthandler.dump_traceback_later(_LIMITS * _time_limit_s(item), exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        item.config.stash[_RUNNING] = None


def _time_limit_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker is not None else item.config.getini("timeout"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a broker, a JVM or Go, by their folder and by what they ask for."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        marks = {_MARK_OF_FIXTURE[name] for name in fixtures if name in _MARK_OF_FIXTURE}
        if _KAFKA_TESTS in item.path.parents:
            marks.add("kafka")
        for mark in sorted(marks):
            item.add_marker(mark)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch Kafka before the first test, because a test's time limit may be shorter than that takes."""
    needed = any("kafka" in item.keywords for item in session.items)
    if session.config.option.collectonly or not needed:
        return
    try:
        prepare()
    except LocalKafkaError as error:
        session.config.stash[_MISSING] = error


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Restore the root logger, which a command that a test runs in this process configures for itself."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    yield
    root.handlers[:] = kept
    root.setLevel(level)


@pytest.fixture(scope="session")
def kafka_installed(pytestconfig: pytest.Config) -> None:
    """Skip without Java and Maven, or fail when the environment says that they have to be there."""
    error = pytestconfig.stash.get(_MISSING, None)
    if error is None:
        return
    if not isinstance(error, MissingToolError):
        pytest.fail(f"no Kafka to test against: {error}", pytrace=False)
    lacking(str(error))


@pytest.fixture(scope="session")
def _java() -> None:
    """Skip without a JDK, or fail when the environment says that there has to be one."""
    try:
        find_javac()
    except MissingToolError as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def kafka_proxy() -> Iterator[FaultProxy]:
    """The proxy before the shared broker's listener PROXIED; tests use `proxy`."""
    with FaultProxy() as proxy:
        yield proxy


@pytest.fixture(scope="session")
def kafka(kafka_installed: None, kafka_proxy: FaultProxy) -> Iterator[LocalKafka]:
    """The broker that all tests share, with listeners PLAINTEXT and PROXIED; leave it as it is."""
    listeners = {"PLAINTEXT": "PLAINTEXT", "PROXIED": "PLAINTEXT"}
    with LocalKafka(listeners=listeners, advertised={"PROXIED": [kafka_proxy.address]}) as kafka:
        kafka_proxy.connect_to(kafka.nodes[0].address("PROXIED"))
        yield kafka


@pytest.fixture
def proxy(kafka: LocalKafka, kafka_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """The way to the shared broker that can fail; `proxy.bootstrap_servers` leads through it."""
    kafka_proxy.reset()
    yield kafka_proxy
    kafka_proxy.reset()


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a broker, of each kind."""
    with servers_of(request) as servers:
        yield servers


@pytest.fixture(scope="session")
def secure_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    """A shared broker with all four listeners and an authorizer.

    `admin` and `alice` may do everything, `mallory` nothing.
    """
    with LocalKafka(
        listeners=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        users={"admin": "admin-secret", "alice": "alice-secret", "mallory": "mallory-secret"},
        authorizer=True,
        super_users=("admin", "alice"),
    ) as kafka:
        yield kafka


@pytest.fixture
def own_kafka(kafka_installed: None) -> Iterator[StartKafka]:
    """Start brokers that the test may kill, pause and restart."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> LocalKafka:
            return stack.enter_context(LocalKafka(**options))

        yield start


@pytest.fixture(scope="module")
def _cluster(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(nodes=3) as kafka:
        yield kafka


@pytest.fixture
def kafka_cluster(_cluster: LocalKafka) -> Iterator[LocalKafka]:
    """Three brokers, which the test may kill, pause and restart; all run again after it."""
    with running_again(_cluster):
        yield _cluster


@pytest.fixture
def steady_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members heartbeat at their interval from the start, as they otherwise do some seconds after a join."""
    monkeypatch.setattr("groupsdk.member.heartbeat.FIRST_SPACING_MS", 2**31)


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    """A group that no other test uses."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name)[:80]
    return f"{name}-{uuid.uuid4().hex[:8]}"
