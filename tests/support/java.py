"""Compile small Java programs against fetched jars, and talk with them line by line."""

import contextlib
import hashlib
import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from groupsdk.testing.errors import LocalKafkaError
from groupsdk.testing.jars import cache_root, fetch, made_once
from groupsdk.testing.jvm import find_java, find_javac
from groupsdk.testing.watchdog import WATCHDOG


QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_COMPILE_TIMEOUT_S = 120
_STDERR_LINES = 40


class JavaError(LocalKafkaError):
    """A Java program does not compile, ended, or did not answer in time; the text shows what it wrote."""


def compiled(source: Path, jars: Sequence[Path]) -> Path:
    """Compile one source file and return the directory of its classes.

    Kept in the cache by the hash of the source, the jars and the compiler.
    """
    javac = find_javac()
    text = source.read_bytes()
    identity = hashlib.sha256(text)
    identity.update("\n".join([source.name, str(javac), *map(str, jars)]).encode())

    def make(scratch: Path) -> None:
        command = [str(javac), "-proc:none", "-nowarn", "-d", str(scratch)]
        command += ["-cp", ":".join(map(str, jars))] if jars else []
        done = subprocess.run(
            [*command, str(source)],
            capture_output=True,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise JavaError(f"{source} does not compile:\n{done.stdout}{done.stderr}")

    return made_once(cache_root() / "java" / identity.hexdigest()[:20], make)


def java_command(
    source: Path, coordinates: Sequence[str], *arguments: str, options: Sequence[str] = QUICK
) -> list[str]:
    """Compile a program of one source file and return the command line that runs it."""
    jars = fetch(coordinates) if coordinates else []
    path = ":".join(map(str, [compiled(source, jars), *jars]))
    return [str(find_java().java), *options, "-cp", path, source.stem, *arguments]


class JavaProgram:
    """A running Java program, which reads commands from its input and writes answers to its output.

    Used as a context manager: it starts on entry and is killed on exit unless it has ended by then.

    Args:
        source: a file with one public class, named as the file, that has a `main`.
        arguments: handed to `main`.
    """

    def __init__(
        self,
        source: Path,
        coordinates: Sequence[str] = (),
        *,
        arguments: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        self._source = source
        self._coordinates = tuple(coordinates)
        self._arguments = tuple(arguments)
        self._options = tuple(options)
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._said: list[str] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command(
                self._source,
                self._coordinates,
                *self._arguments,
                options=(*QUICK, *self._options),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        WATCHDOG.watch(self._process.pid)
        self._threads = [
            threading.Thread(target=self._read_answers, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        process = self._running()
        process.kill()
        process.wait()
        WATCHDOG.forget(process.pid)
        for thread in self._threads:
            thread.join(10)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                # What was not yet written out has nobody to read it.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    @property
    def pid(self) -> int:
        return self._running().pid

    def send(self, line: str) -> None:
        """Write one line to the program's input."""
        stdin = self._running().stdin
        assert stdin is not None
        try:
            stdin.write(line + "\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise self._failure("has ended") from error

    def receive(self, timeout_ms: int = 60_000) -> str:
        """Return the next line of the program's output, without its end.

        Raises:
            JavaError: the program ended, or wrote nothing in time.
        """
        try:
            line = self._lines.get(timeout=timeout_ms / 1000)
        except queue.Empty:
            raise self._failure(f"wrote no line within {timeout_ms} ms") from None
        if line is None:
            self._lines.put(None)
            raise self._failure(f"ended with status {self._running().wait(10)}")
        return line

    def ask(self, line: str, timeout_ms: int = 60_000) -> str:
        """Send a line and return the next line of output."""
        self.send(line)
        return self.receive(timeout_ms)

    def end_input(self) -> None:
        stdin = self._running().stdin
        assert stdin is not None
        stdin.close()

    def wait(self, timeout_ms: int = 60_000) -> int:
        """Wait until the program ends by itself and return its exit status; raises JavaError."""
        try:
            return self._running().wait(timeout_ms / 1000)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {timeout_ms} ms") from None

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            raise JavaError("not started: use it in a with statement")
        return self._process

    def _failure(self, what: str) -> JavaError:
        for thread in self._threads[1:]:
            thread.join(0.5)
        return JavaError(f"{self._source.stem} {what}; it wrote:\n" + "\n".join(self._said))

    def _read_answers(self) -> None:
        stdout = self._running().stdout
        assert stdout is not None
        for line in stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _read_errors(self) -> None:
        stderr = self._running().stderr
        assert stderr is not None
        for line in stderr:
            self._said.append(line.rstrip("\n"))
            del self._said[:-_STDERR_LINES]


def run(
    source: Path,
    coordinates: Sequence[str] = (),
    *,
    arguments: Sequence[str] = (),
    text: str = "",
    timeout_ms: int = 60_000,
) -> str:
    """Run a program to its end and return its whole output; an exit status other than 0 is a JavaError."""
    try:
        done = subprocess.run(
            java_command(source, coordinates, *arguments, options=["-XX:TieredStopAtLevel=1"]),
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout_ms / 1000,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JavaError(f"{source.stem} did not end within {timeout_ms} ms") from None
    if done.returncode != 0:
        raise JavaError(
            f"{source.stem} ended with status {done.returncode}:\n{done.stderr[-4000:]}"
        )
    return done.stdout
