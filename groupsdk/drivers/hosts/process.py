"""Run the engine in a child process, which native code in this process cannot block."""

import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from groupsdk.drivers.hosts import frames as messages
from groupsdk.drivers.hosts.host import Mailbox, promise, settle, warn_unclosed
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.errors import EngineError, MemberClosedError
from groupsdk.member.events import CallerEvent
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.settings.config import MemberConfig
from groupsdk.wire.schema import Response


logger = logging.getLogger(__name__)

# The paths as they are here, whatever set them, and nothing besides: "-P" keeps the working directory
# out, where a file of the user's could stand in for a module of Python's own. Collecting garbage would
# only slow down the imports, which leave none.
_PROGRAM: Final = (
    "import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:];"
    " from groupsdk.drivers.hosts.child import main; main(int(sys.argv[1]))"
)
_FIRST_FREE: Final = 3  # after stdin, stdout and stderr
_REAP_S: Final = 10.0  # a child that has closed its socket has nothing left to do but exit


class ProcessHost:
    """A child process with the whole engine: heartbeats, connections and the deadline of `poll`.

    Native code may hold this interpreter's lock for as long as it likes; only max.poll.interval.ms bounds
    it. The child is a new Python process, not a fork: of the user's modules it imports those that
    sasl.oauth.token.provider needs, and no other.

    When this process dies, even by SIGKILL, the child stops heartbeating at once and exits. A dynamic member
    leaves the group before, so that others can take over without waiting for the session timeout; a static
    one falls silent, since it may be back before that. When the child dies, the caller gets an `EngineError`.
    """

    def __init__(self, config: MemberConfig, mailbox: Mailbox) -> None:
        self.ended: Future[None] = promise()
        self._config = config
        self._mailbox = mailbox
        self._pid = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        # its put() is re-entrant: signal handlers and the garbage collector may post
        self._outbox: SimpleQueue[messages.ToChild | None] = SimpleQueue()
        self._asked: dict[int, Future[dict[str, float]]] = {}
        self._questions: dict[int, Future[Response]] = {}
        self._asked_lock = CallersLock()
        self._last_asked = 0
        self._last_metrics: dict[str, float] = {}
        self._views = messages.ViewReceiver()
        self._last: messages.Ended | None = None
        # Whether the reader has the socket, and whether the start was interrupted; under the lock.
        self._reading = False
        self._unwanted = False

    def start(self) -> None:
        """Start the child and the two threads that speak with it; does not wait for the child."""
        if not sys.executable or getattr(sys, "frozen", False):
            raise EngineError(
                "heartbeat='process' starts a Python interpreter (sys.executable), and this program has"
                " none of its own: use heartbeat='thread'"
            )
        ours, theirs = map(_beyond_streams, socket.socketpair())
        started = False
        try:
            with theirs, _parents_signals_blocked():
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-P",
                        "-c",
                        _PROGRAM,
                        str(theirs.fileno()),
                        *(str(Path(path).absolute()) for path in sys.path),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            self._outbox.put(messages.Start(self._config, self._pid, messages.lowest_level()))
            name = f"groupsdk-{self._config.group_id}"
            writer = threading.Thread(
                target=self._write, args=(ours,), name=f"{name}-to-child", daemon=True
            )
            reader = threading.Thread(
                target=self._read, args=(ours, writer), name=name, daemon=True
            )
            reader.start()
            started = True
        except (OSError, RuntimeError) as error:
            raise EngineError(f"cannot start the child process of the member: {error}") from error
        finally:
            if not started:
                self._give_up(ours)

    def _give_up(self, sock: socket.socket) -> None:
        """End what was started: nobody will use this host, though its reader may be about to begin."""
        with self._asked_lock:
            self._unwanted = True
            reading = self._reading
        if self._process is not None:
            self._process.kill()
        if not reading:
            sock.close()
            if self._process is not None:
                self._process.wait()

    def post(self, event: CallerEvent) -> None:
        """Hand the engine an event."""
        if not self.ended.done():  # else nothing would take it out again
            self._outbox.put(event)

    def ask(self, request: CoordinatorRequest) -> Future[Response]:
        """Send the coordinator a request beside the membership."""
        answer: Future[Response] = promise()
        with self._asked_lock:
            if self.ended.done():
                answer.set_exception(MemberClosedError("the member is closed"))
            else:
                self._last_asked += 1
                self._questions[self._last_asked] = answer
                self._outbox.put(messages.Asked(self._last_asked, request))
        return answer

    def metrics(self) -> Future[dict[str, float]]:
        """Ask for the coordinator metrics."""
        answer: Future[dict[str, float]] = promise()
        with self._asked_lock:
            if self.ended.done():
                answer.set_result(self._last_metrics)
            else:
                self._last_asked += 1
                self._asked[self._last_asked] = answer
                self._outbox.put(messages.MetricsAsked(self._last_asked))
        return answer

    def abandon(self) -> None:
        """Close the socket to the child, which treats that as the death of its parent."""
        if os.getpid() == self._pid:  # in a fork, the member is that of the parent
            self._outbox.put(None)
            if not self.ended.done():
                warn_unclosed(self._config.group_id, self)

    def abort(self) -> None:
        """Kill the child; one that is stopped as well."""
        if self._process is not None and os.getpid() == self._pid:
            self._process.kill()

    # On the writer's thread.

    def _write(self, sock: socket.socket) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                sock.sendall(messages.encode(message))
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # a child that is gone is the reader's business
        except Exception:
            logger.exception(
                "group=%s: cannot communicate with a member's child process", self._config.group_id
            )
            self.abort()

    # On the reader's thread.

    def _read(self, sock: socket.socket, writer: threading.Thread) -> None:
        with self._asked_lock:
            if self._unwanted:
                return
            self._reading = True
        trouble = ""
        frames = messages.FrameReader()
        try:
            writer.start()
            while data := sock.recv(65_536):
                for message in frames.feed(data):
                    self._take(message)
        except ConnectionResetError:
            pass  # it died with unread messages
        except Exception as error:
            logger.exception(
                "group=%s: cannot process the messages of a member's child process",
                self._config.group_id,
            )
            trouble = f"{type(error).__name__}: {error}"
        finally:
            self._end(sock, writer, trouble)

    def _take(self, message: object) -> None:
        match message:
            case messages.Shown():
                self._mailbox.publish(self._views.view(message))
            case messages.MetricsTold(request_id, values):
                self._last_metrics = values
                with self._asked_lock:
                    answer = self._asked.pop(request_id, None)
                if answer is not None:
                    answer.set_result(values)
            case messages.Told(request_id, answered):
                with self._asked_lock:
                    question = self._questions.pop(request_id, None)
                if question is not None:
                    settle(question, answered)
            case messages.Logged():
                assert self._process is not None
                messages.log_here(message, self._process.pid)
            case messages.Ended():
                self._last = message
                self._last_metrics = message.metrics
            case _:
                raise AssertionError(
                    f"unexpected message from the child process: {type(message).__name__}"
                )

    def _end(self, sock: socket.socket, writer: threading.Thread, trouble: str) -> None:
        """Clean up process, threads and socket, and report how the child ended."""
        status = self._reap(kill=bool(trouble))
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)  # ends a send, which close() does not
        self._outbox.put(None)
        if writer.ident is not None:
            writer.join()
        sock.close()
        well = not trouble and self._last is not None and self._last.error is None
        if not well and not self._unwanted:
            self._mailbox.crash(EngineError(self._what_happened(trouble, status)))
        with self._asked_lock:
            self.ended.set_result(None)
            asked, self._asked = self._asked, {}
            questions, self._questions = self._questions, {}
        for answer in asked.values():
            answer.set_result(self._last_metrics)
        for question in questions.values():
            settle(question, MemberClosedError("the member ended before the coordinator answered"))

    def _reap(self, *, kill: bool) -> int:
        assert self._process is not None
        if kill:
            self._process.kill()
        try:
            return self._process.wait(_REAP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _what_happened(self, trouble: str, status: int) -> str:
        if trouble:
            return f"the child process of the member was ended: {trouble}"
        if self._last is not None:
            return f"the engine in the child process ended: {self._last.error}"
        if status < 0:
            return f"the child process of the member was killed by {_signal_name(-status)}"
        return (
            f"the child process of the member exited with status {status}; its output is on stderr"
        )


@contextmanager
def _parents_signals_blocked() -> Iterator[None]:
    """Make children started in the block defer Ctrl-C and SIGTERM until they can ignore them."""
    # asked for first: a handler may raise within the call that blocks them, which has done so by then
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, messages.PARENTS_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _beyond_streams(sock: socket.socket) -> socket.socket:
    """Return the socket under a descriptor above the standard streams', which a daemon may have closed."""
    if sock.fileno() >= _FIRST_FREE:
        return sock
    with sock:
        return socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE))
