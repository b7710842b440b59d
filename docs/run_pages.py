#!/usr/bin/env python
"""Follow the pages as their reader does: `python -m docs.run_pages [--whole] [PAGE...]`.

Each page is followed in an empty directory, block by block: shell blocks as commands of one terminal, Python blocks as files
where the text names one, otherwise as programs. groupsdk is installed from the built wheel. `docs/page_blocks.py` has the
marks for what does not simply run to its end. Three things differ from what the page says:

- ports are free ones of this machine, the same one wherever a page names the same port;
- `PID` is the process that was started last in the background;
- without `--whole`, `pip install` finds the packages of others installed, all but PySpark, and blocks with the mark `whole` are left out.
"""

import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, Self

from docs.page_blocks import Block, PageError, Program, pages, programs
from docs.reader_environment import SPARK, build_wheel, make_environment, other_packages
from docs.regions import DOCS
from groupsdk.clock import Deadline, SystemClock
from groupsdk.testing.ports import ReservedPorts


TIMEOUT_MS: Final = 120_000
WHOLE_TIMEOUT_MS: Final = 1_200_000
"""For one block; with downloads it may take longer."""
_PORT: Final = re.compile(r"(?<![\w.])(9092|9093|8080|8083|8084|8085|9100)(?![\w.])")
_IN_ORDER: Final = (0, 130, -signal.SIGINT)
_LANGUAGES: Final = ("sh", "python")


class FailedBlockError(Exception):
    """A block of a page that does not do what the page says."""


@dataclass(frozen=True)
class Tools:
    """What all pages are followed with.

    Attributes:
        wheel: the wheel of groupsdk.
        environment: a virtual environment with the wheel, for pages that make none.
        others: a folder of packages of others; None: pip downloads them.
    """

    wheel: Path
    environment: Path
    others: Path | None

    @classmethod
    def make(cls, folder: Path, *, whole: bool) -> Self:
        """Build the wheel and an environment below a folder."""
        wheel = build_wheel(folder / "dist")
        others = None if whole else other_packages(folder / "others", SPARK)
        return cls(wheel, make_environment(folder / "environment", wheel, others), others)


class Started:
    """A process in a session of its own, and the lines that it prints."""

    def __init__(self, command: Sequence[str], where: Path, environment: dict[str, str]) -> None:
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            command,
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def find(self, pattern: str, deadline: Deadline) -> re.Match[str] | None:
        """Return the match of the next line in which the pattern is found; None if the process or the time ends before."""
        while (line := self._next(deadline)) is not None:
            if found := re.search(pattern, line):
                return found
        return None

    def exit_code(self, deadline: Deadline) -> int | None:
        """Wait for the exit code; None if the process is still running at the deadline."""
        try:
            code = self._process.wait(deadline.remaining_ms(WHOLE_TIMEOUT_MS) / 1000)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(5)  # a child that it leaves behind may keep the pipe
        while not self._new.empty():
            self._new.get()
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal; SIGINT is what Ctrl-C sends."""
        os.killpg(self.pid, number)

    def _next(self, deadline: Deadline) -> str | None:
        try:
            return self._new.get(timeout=deadline.remaining_ms(WHOLE_TIMEOUT_MS) / 1000)
        except queue.Empty:
            return None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._new.put(self.lines[-1])
        self._new.put(None)


class Reader:
    """Follows one page in a directory of its own; a context manager, which ends what the page has started.

    Attributes:
        run: the blocks that were run.
        left_out: the blocks that were not, with the reasons.
    """

    def __init__(self, page: Path, folder: Path, tools: Tools) -> None:
        self.run: list[Block] = []
        self.left_out: list[tuple[Block, str]] = []
        self._programs = programs(page)
        self._tools = tools
        self._timeout_ms = WHOLE_TIMEOUT_MS if tools.others is None else TIMEOUT_MS
        self._state = folder / "state"
        self._home = folder / "home"
        self._stack = ExitStack()
        self._last: Started | None = None
        for each in (self._state, self._home):
            each.mkdir(parents=True)
        self._set_up()

    def _set_up(self) -> None:
        bin_folder = self._state / "bin"
        bin_folder.mkdir()
        python = bin_folder / "python3"
        python.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} "$@"\n')
        python.chmod(0o755)
        makes_one = any("-m venv" in each.source for each in self._programs)
        path = [] if makes_one else [str(self._tools.environment / "bin")]
        self._environment = {
            "HOME": str(self._home),
            "PATH": os.pathsep.join([*path, str(bin_folder), "/usr/local/bin", "/usr/bin", "/bin"]),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",  # as in a terminal
            "GROUPSDK": str(self._tools.wheel),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_CACHE_DIR": str(Path.home() / ".cache/pip"),
            **{name: os.environ[name] for name in ("JAVA_HOME", "TMPDIR") if name in os.environ},
        }
        if self._tools.others is not None:
            self._environment |= {"PYTHONPATH": str(self._tools.others), "PIP_NO_INDEX": "1"}
        text = "".join(f"{each.source}{each.marks}" for each in self._programs)
        names = sorted(set(_PORT.findall(text)))
        reserved = self._stack.enter_context(ReservedPorts(len(names)))
        self._ports = dict(zip(names, map(str, reserved.ports), strict=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def follow(self) -> None:
        """Follow the page to its end.

        Raises:
            FailedBlockError: a block does not do what the page says.
        """
        for program in self._programs:
            marks = program.marks
            if "skip" in marks or ("whole" in marks and self._tools.others is not None):
                self.left_out.append((program.last, marks.get("why") or marks["why_whole"]))
            elif program.file:
                self._save(program.file, program)
            elif program.last.language in _LANGUAGES:
                self.run.append(program.last)
                self._run(program.last, marks, self._command(program))

    def _save(self, name: str, program: Program) -> None:
        """Save a program where the terminal is."""
        place = self._state / "place"
        folder = Path(place.read_text().strip()) if place.exists() else self._home
        (folder / name).write_text(self._localized(program.source), encoding="utf-8")

    def _command(self, program: Program) -> str:
        """Return what is typed to run a program."""
        if program.last.language == "python":
            name = f"block_{program.last.line}.py"
            self._save(name, program)
            return f"python {name}"
        code = self._localized(program.source)
        return code if self._last is None else re.sub(r"\bPID\b", str(self._last.pid), code)

    def _localized(self, text: str) -> str:
        return _PORT.sub(lambda found: self._ports[found[1]], text)

    def _run(self, block: Block, marks: dict[str, str], command: str) -> None:
        """Run a command as its marks say."""
        deadline = Deadline(SystemClock(), self._timeout_ms)
        if "until" not in marks:
            with self._start(command, keep=True) as started:
                code = started.exit_code(deadline)
            said = "\n".join(started.lines)
            if code != int(marks.get("exits", 0)):
                raise self._failed(block, started, f"ended with {code}")
            if not re.search(self._localized(marks.get("prints", "")), said, re.MULTILINE):
                raise self._failed(block, started, f"did not print {marks['prints']!r}")
            return
        started = self._stack.enter_context(self._start(command, keep=False))
        if not started.find(self._localized(marks["until"]), deadline):
            raise self._failed(block, started, f"did not print {marks['until']!r}")
        if "background" in marks:
            self._last = started
            return
        started.send(signal.SIGTERM if "terminated" in marks else signal.SIGINT)
        if (code := started.exit_code(deadline)) not in _IN_ORDER:
            raise self._failed(block, started, f"ended with {code} after a signal")

    def _start(self, command: str, *, keep: bool) -> Started:
        """Start a shell that goes on where the last command left the terminal; with `keep`, the next one goes on there."""
        variables, place = self._state / "variables", self._state / "place"
        before = f'[ ! -f {variables} ] || . {variables}\ncd "$(cat {place} 2>/dev/null || pwd)"\n'
        if keep:
            text = f"{before}{command}\ndeclare -px >{variables}\npwd >{place}\n"
        else:
            head, last = last_command(command)
            text = f"{before}{head}\nexec {last}\n"
        command = f"set -e -o pipefail\n{text}"
        return Started(["bash", "-c", command], self._home, self._environment)

    def _failed(self, block: Block, started: Started, what: str) -> FailedBlockError:
        tail = "\n".join([line for line, _ in groupby(started.lines)][-60:])
        return FailedBlockError(f"{block.place} {what}:\n{block.code}\nIt printed:\n{tail}")


def last_command(text: str) -> tuple[str, str]:
    """Split shell commands before the last one, which may have several lines within quotes."""
    lines = text.replace("\\\n", " ").strip().splitlines()
    start = len(lines) - 1
    while start and "\n".join(lines[start:]).count('"') % 2:
        start -= 1
    return "\n".join(lines[:start]), "\n".join(lines[start:])


def follow(page: Path, tools: Tools) -> Reader:
    """Follow a page in a directory that is deleted afterwards; return what was run and left out.

    Raises:
        FailedBlockError: a block does not do what the page says.
    """
    folder = Path(tempfile.mkdtemp(prefix="groupsdk-page-"))
    try:
        with Reader(page, folder, tools) as reader:
            reader.follow()
        return reader
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Follow the pages that are named, or all; print what came of each, and return the exit code."""
    parser = argparse.ArgumentParser(description="Follow the pages as their reader does.")
    parser.add_argument("--whole", action="store_true", help="download packages; leave nothing out")
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    given = parser.parse_args()
    clock = SystemClock()
    failures = left_out = 0
    # a shell that starts this in the background has it ignore Ctrl-C, and so all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="groupsdk-pages-") as folder:
        tools = Tools.make(Path(folder), whole=given.whole)
        for page in given.pages or pages():
            started_ms = clock.now_ms()
            try:
                reader = follow(page if page.exists() else DOCS / page, tools)
            except (FailedBlockError, PageError) as error:
                failures += 1
                sys.stdout.write(f"{page.name}: FAILED\n{error}\n")
                continue
            left_out += len(reader.left_out)
            seconds = (clock.now_ms() - started_ms) // 1000
            sys.stdout.write(f"{page.name}: {len(reader.run)} run, {seconds} s\n")
            for block, reason in reader.left_out:
                sys.stdout.write(f"    {block.place} left out: {reason}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{failures} failed; {left_out} blocks left out\n")
    return 1 if failures else 0


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)  # in order, so that what the pages have started is ended


if __name__ == "__main__":
    sys.exit(main())
