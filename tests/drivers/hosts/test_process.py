"""Test what is particular to the child process; `test_host.py` has what all hosts promise."""

import gc
import logging
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from groupsdk.clock import SystemClock
from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.drivers.hosts.process import ProcessHost
from groupsdk.errors import EngineError
from groupsdk.member.events import Polled
from groupsdk.member.state import MemberState
from groupsdk.wire.schema import ApiKey
from tests.drivers.hosts.test_host import TIMEOUT_S, settings
from tests.drivers.virtual import config
from tests.support.interrupts import everywhere
from tests.support.plain_workers import PlainWorker
from tests.support.scripted_broker import ScriptedBroker
from tests.support.workers import eventually


ROOT = Path(__file__).parents[3]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def worker(broker: ScriptedBroker) -> Iterator[PlainWorker]:
    """A member that has joined, with its engine in a child process."""
    worker = PlainWorker(settings(broker, "process"))
    assert worker.ensure_active_group(TIMEOUT_S)
    yield worker
    worker.close(0)


def child_of(worker: PlainWorker) -> int:
    host = worker._groupsdk_handle.host
    assert isinstance(host, ProcessHost)
    assert host._process is not None
    return host._process.pid


def ended(worker: PlainWorker) -> None:
    """Wait until the host has noticed the end of its child."""
    host = worker._groupsdk_handle.host
    assert host is not None
    host.ended.result(TIMEOUT_S)


def wait_gone(pid: int) -> None:
    """Wait until a process that may not be ours is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], TIMEOUT_S)[0], f"process {pid} goes on"
    finally:
        os.close(descriptor)


# the start


# between two calls of the start nothing owns the pair of sockets yet
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_interrupted_start_leaves_nothing_and_ends_no_member() -> None:
    """As by Ctrl-C, whose handler raises: the next call starts another host, with the same mailbox."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def ours(thread: threading.Thread) -> bool:
        return thread.name.startswith("groupsdk-group")

    def run(interrupted: Callable[[], Any]) -> None:
        mailbox = Mailbox()
        host = ProcessHost(config(bootstrap_servers="127.0.0.1:1"), mailbox)
        started = False
        # Python's own Condition may make an error of an interrupt: "release unlocked lock"
        with interrupted(), suppress(EngineError):
            host.start()
            started = True
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if started:
            host.abort()
        eventually(
            lambda: not any(ours(each) and each.is_alive() for each in threading.enumerate())
        )
        assert host._process is None or host._process.returncode is not None
        assert started or mailbox.view.crash is None

    where = ("/hosts/process.py", "/threading.py")
    assert len(list(everywhere(run, where))) > 20


# the child's death


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV])
def test_a_killed_child_is_noticed_at_once(worker: PlainWorker, number: signal.Signals) -> None:
    os.kill(child_of(worker), number)
    ended(worker)
    assert worker.generation_if_stable() is None
    snapshot = worker.snapshot()
    assert not snapshot.stable
    assert snapshot.state is MemberState.STABLE  # the last that is known
    assert snapshot.trouble == f"the child process of the member was killed by {number.name}"
    for _ in range(2):
        with pytest.raises(EngineError, match=f"killed by {number.name}"):
            worker.poll()
    assert "join-total" in worker.metrics() or worker.metrics() == {}
    worker.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_for_the_parent_do_not_end_the_child(
    broker: ScriptedBroker, worker: PlainWorker, number: signal.Signals
) -> None:
    before = len(broker.seen(ApiKey.HEARTBEAT))
    os.kill(child_of(worker), number)
    broker.wait_for(lambda: len(broker.seen(ApiKey.HEARTBEAT)) >= before + 3)
    assert worker.generation_if_stable() is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_for_the_parent_do_not_end_a_child_that_is_still_starting(
    broker: ScriptedBroker, number: signal.Signals
) -> None:
    worker = PlainWorker(settings(broker, "process"))
    worker.poll()  # starts it, and it takes a while to import
    for _ in range(20):
        os.kill(child_of(worker), number)
    assert worker.ensure_active_group(TIMEOUT_S)
    worker.close()
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGINT, signal.SIGTERM}


def test_closing_does_not_wait_for_ever_for_a_stopped_child(worker: PlainWorker) -> None:
    pid = child_of(worker)
    os.kill(pid, signal.SIGSTOP)
    clock = SystemClock()
    started_ms = clock.now_ms()
    worker.close(0)
    # a second of grace, and not the 60 s that this test may take
    assert clock.now_ms() - started_ms < 20_000
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)  # it was killed, and is no zombie


def test_a_stopped_child_holds_no_call_for_ever_and_goes_on_later(worker: PlainWorker) -> None:
    pid = child_of(worker)
    os.kill(pid, signal.SIGSTOP)
    worker.request_rejoin("nobody hears it yet")
    worker.poll(0)
    os.kill(pid, signal.SIGCONT)
    assert worker.poll(TIMEOUT_S)
    assert worker.snapshot().assignment_epoch == 2


def test_more_than_a_socket_holds_does_not_block_the_caller(worker: PlainWorker) -> None:
    pid = child_of(worker)
    os.kill(pid, signal.SIGSTOP)
    for _ in range(50):
        worker.request_rejoin("x" * 100_000)
    os.kill(pid, signal.SIGCONT)
    assert worker.poll(TIMEOUT_S)


# the parent's death


PARENT = """
    import os, sys
    from groupsdk import AbstractCoordinator

    print("imported", flush=True)  # a second time, where the child imports __main__

    class Worker(AbstractCoordinator):
        protocol_type = "work"
        def metadata(self): return [("v0", b"")]
        def perform_assignment(self, leader_id, protocol, members): return {}
        def on_join_complete(self, *arguments): pass

    if __name__ == "__main__":
        worker = Worker(bootstrap_servers=sys.argv[1], group_id="group", heartbeat="process",
                        heartbeat_interval_ms=30, **eval(sys.argv[2]))
        assert worker.ensure_active_group(20)
        print(worker._groupsdk_handle.host._process.pid, flush=True)
        if "fork" in sys.argv:
            if os.fork() == 0:  # holds the parent's end of the socket, too
                print(os.getpid(), flush=True)
        sys.stdin.readline()
        if "exit" in sys.argv:
            sys.exit()
"""


CLOSED = """
import io
sys.stdin, sys.stdout = io.StringIO("\\n"), io.StringIO()
for descriptor in (0, 1, 2):
    os.close(descriptor)
"""


class Parent:
    """A process with a member of its own."""

    def __init__(self, broker: ScriptedBroker, folder: Path, *arguments: str) -> None:
        script = folder / "parent.py"
        script.write_text(textwrap.dedent(PARENT))
        self.process = subprocess.Popen(
            [sys.executable, str(script), broker.address, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        )
        assert self.line() == "imported"
        self.child = int(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    parents: list[Parent] = []
    yield parents
    for parent in parents:
        parent.end()


@pytest.mark.parametrize(
    ("options", "leaves"), [("{}", True), ("{'group_instance_id': 'static'}", False)]
)
def test_a_killed_parent_takes_the_child_with_it_and_a_dynamic_member_leaves(
    broker: ScriptedBroker, tmp_path: Path, parents: list[Parent], options: str, leaves: bool
) -> None:
    parent = Parent(broker, tmp_path, options)
    parents.append(parent)
    parent.process.kill()
    wait_gone(parent.child)
    broker.wait_for(lambda: broker.connected == 0)
    assert bool(broker.seen(ApiKey.LEAVE_GROUP)) is leaves
    assert parent.line() == ""  # the child imported no __main__, and holds no pipe of its parent


def test_a_fork_of_the_parent_does_not_keep_the_child_alive(
    broker: ScriptedBroker, tmp_path: Path, parents: list[Parent]
) -> None:
    parent = Parent(broker, tmp_path, "{}", "fork")
    parents.append(parent)
    fork = int(parent.line())
    try:
        parent.process.kill()
        wait_gone(parent.child)
        assert broker.seen(ApiKey.LEAVE_GROUP)
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_parent_that_forgot_to_close_leaves_when_it_exits(
    broker: ScriptedBroker, tmp_path: Path, parents: list[Parent]
) -> None:
    parent = Parent(broker, tmp_path, "{}", "exit")
    parents.append(parent)
    parent.process.communicate("\n")
    assert parent.process.returncode == 0
    wait_gone(parent.child)
    assert broker.seen(ApiKey.LEAVE_GROUP)


def test_a_fork_that_drops_the_member_does_not_end_that_of_the_parent(
    worker: PlainWorker, monkeypatch: pytest.MonkeyPatch, broker: ScriptedBroker
) -> None:
    host = worker._groupsdk_handle.host
    assert host is not None
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    host.abandon()
    host.abort()
    monkeypatch.undo()
    assert worker.poll(0.1)
    assert not broker.seen(ApiKey.LEAVE_GROUP)


# starting


def test_the_child_finds_the_modules_where_the_parent_does(
    broker: ScriptedBroker, tmp_path: Path
) -> None:
    # groupsdk is on no path but that which the script sets, and a file of the user's bears the name of a
    # module of Python's own
    (tmp_path / "queue.py").write_text("raise AssertionError('the file of the user')")
    script = tmp_path / "elsewhere" / "main.py"
    script.parent.mkdir()
    lines = textwrap.dedent(PARENT).replace(
        "import os, sys", f"import os, sys; sys.path.insert(0, {str(ROOT)!r})", 1
    )
    script.write_text(lines)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(script), broker.address, "{}", "exit"],
        input="\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    wait_gone(int(done.stdout.split()[1]))


@pytest.mark.parametrize(
    ("name", "value"), [("executable", ""), ("executable", None), ("frozen", True)]
)
def test_a_program_without_an_interpreter_is_told_what_to_do(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    monkeypatch.setattr(sys, name, value, raising=False)
    with pytest.raises(EngineError, match="use heartbeat='thread'"):
        PlainWorker(settings(broker, "process")).poll()


def test_a_daemon_may_have_closed_its_standard_streams(
    broker: ScriptedBroker, tmp_path: Path
) -> None:
    # sockets would get their numbers, which mean something else in a child
    script = tmp_path / "parent.py"
    closing = textwrap.dedent(PARENT).replace("import os, sys", "import os, sys\n" + CLOSED, 1)
    script.write_text(closing)
    done = subprocess.run(
        [sys.executable, str(script), broker.address, "{}", "exit"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0
    assert broker.seen(ApiKey.SYNC_GROUP)


def test_a_process_that_cannot_be_started_leaves_nothing_behind(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    gc.collect()  # what earlier tests have left open
    before = len(list(Path("/proc/self/fd").iterdir()))
    worker = PlainWorker(settings(broker, "process"))
    with pytest.raises(EngineError, match=r"cannot start the child process.*No such file"):
        worker.poll()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    monkeypatch.undo()
    assert worker.ensure_active_group(TIMEOUT_S)
    worker.close()


def test_a_thread_that_cannot_be_started_leaves_no_child_behind(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    children: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            children.append(self)

    worker = PlainWorker(settings(broker, "process"))
    monkeypatch.setattr(subprocess, "Popen", Recorded)
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(EngineError, match="can't start new thread"):
        worker.poll()
    monkeypatch.undo()
    assert [child.returncode for child in children] == [-signal.SIGKILL]
    assert worker.ensure_active_group(TIMEOUT_S)
    worker.close()


def test_an_interpreter_that_fails_is_reported(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("groupsdk.drivers.hosts.process._PROGRAM", "import no_such_module")
    worker = PlainWorker(settings(broker, "process"))
    with pytest.raises(EngineError, match=r"exited with status 1.*stderr"):
        worker.ensure_active_group(TIMEOUT_S)
    worker.close()
    assert "no_such_module" in capfd.readouterr().err


# settings and logs


PROVIDERS = """
    import os

    def provider():
        with open(os.environ["CALLED"], "a") as file:
            print(os.getpid(), file=file)
        return "alice-token"

    class Provider:
        def __init__(self, token): self.token = token
        def __call__(self): return provider()

    class Broken(Provider):
        def __setstate__(self, state): raise RuntimeError("cannot come back")
"""


@pytest.fixture
def providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the user's with token providers, which note who called them in `called`."""
    (tmp_path / "own_providers.py").write_text(textwrap.dedent(PROVIDERS))
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_providers  # type: ignore[import-not-found]  # written above

    yield own_providers
    del sys.modules["own_providers"]


def oauth(provider: object) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }


@pytest.mark.parametrize("name", ["provider", "Provider"])
def test_the_token_provider_runs_in_the_child(providers: Any, tmp_path: Path, name: str) -> None:
    provider = providers.provider if name == "provider" else providers.Provider("x")
    with (
        ScriptedBroker(passwords={"alice": "alice-token"}) as broker,
        PlainWorker(settings(broker, "process", **oauth(provider))) as worker,
    ):
        assert worker.ensure_active_group(TIMEOUT_S)
        pid = child_of(worker)
    assert set((tmp_path / "called").read_text().split()) == {str(pid)}


def test_settings_that_do_not_arrive_are_reported(broker: ScriptedBroker, providers: Any) -> None:
    worker = PlainWorker(settings(broker, "process", **oauth(providers.Broken("x"))))
    with pytest.raises(EngineError, match="RuntimeError: cannot come back"):
        worker.ensure_active_group(TIMEOUT_S)
    worker.close()


def test_the_log_of_the_child_comes_out_here(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "groupsdk"),
        PlainWorker(settings(broker, "process")) as worker,
    ):
        assert worker.ensure_active_group(TIMEOUT_S)
        pid = child_of(worker)
    records = [record for record in caplog.records if record.process == pid]
    texts = [record.getMessage() for record in records]
    assert any("the group coordinator is" in text for text in texts)
    assert any("leaving the group" in text for text in texts)
    assert {record.name.partition(".")[0] for record in records} == {"groupsdk"}
    assert all(record.levelno >= logging.INFO for record in records)


def test_the_child_sends_no_record_that_nobody_wants(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[object] = []
    monkeypatch.setattr(
        "groupsdk.drivers.hosts.frames.log_here", lambda *record: arrived.append(record)
    )
    with (
        caplog.at_level(logging.WARNING, "groupsdk"),
        PlainWorker(settings(broker, "process")) as worker,
    ):
        assert worker.ensure_active_group(TIMEOUT_S)
    assert arrived == []


# what a child may say


def test_a_host_whose_child_talks_nonsense_ends_it(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = (
        "import socket, sys, time; s = socket.socket(fileno=int(sys.argv[1]));"
        " s.sendall(b'\\xff\\xff\\xff\\xff'); time.sleep(60)"
    )
    monkeypatch.setattr("groupsdk.drivers.hosts.process._PROGRAM", program)
    worker = PlainWorker(settings(broker, "process"))
    with pytest.raises(EngineError, match="FrameError: a frame of 4294967295 bytes"):
        worker.ensure_active_group(TIMEOUT_S)
    worker.close()
    assert "cannot process the messages of a member's child process" in caplog.text


def test_event_that_cannot_be_sent_ends_the_member(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox = Mailbox()
    host = ProcessHost(settings(broker, "process"), mailbox)
    host.start()
    event: Any = threading.Lock()
    host.post(Polled())
    host.post(event)
    host.ended.result(TIMEOUT_S)
    assert mailbox.view.crash is not None
    assert "cannot communicate with a member's child process" in caplog.text
    for _ in range(10):
        host.post(Polled())
    assert host._outbox.qsize() <= 1  # nothing takes it out any more
    del host
    gc.collect()
