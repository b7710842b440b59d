"""Kill processes when this Python process ends, however it ends."""

import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path


# Reads lines until the end of the pipe, which comes when the last process that can write to it is gone: this Python
# process. "+ pid" and "- pid" watch a process and no longer, "d path" names a directory to remove at the end. A pipe
# and not prctl(PR_SET_PDEATHSIG), because that signal comes when the *thread* that started the child ends, needs
# code between fork and exec, and exists on Linux only.
_WATCH = """
trap '' INT TERM HUP
pids=
while read -r sign what; do
  if [ "$sign" = d ]; then set -- "$@" "$what"; continue; fi
  rest=
  for known in $pids; do [ "$known" = "$what" ] || rest="$rest $known"; done
  pids=$rest
  [ "$sign" = - ] || pids="$pids $what"
done
for known in $pids; do kill -9 "$known" 2>/dev/null; done
for path in "$@"; do rm -rf -- "$path"; done
"""

# The child announces itself before it becomes the program, so no moment is left in which it runs unwatched. It is
# handed the pipe as its standard input, since a plain shell knows descriptors of one digit only.
_ANNOUNCE = 'echo "+ $$" >&0; exec "$@" </dev/null'


class Watchdog:
    """A small shell process that outlives us just long enough to kill what we started. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._pipe = -1
        self._process: subprocess.Popen[bytes] | None = None

    def _ensure(self) -> int:
        with self._lock:
            if self._owner != os.getpid() or self._process is None:
                read_end, write_end = os.pipe()
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _WATCH],
                    stdin=read_end,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    # A session of its own, or Ctrl-C at the terminal would end it before us.
                    start_new_session=True,
                )
                os.close(read_end)
                self._pipe = write_end
                self._owner = os.getpid()
            return self._pipe

    def spawn(
        self, command: list[str], output: Path, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a process under watch, with an empty input."""
        pipe = self._ensure()
        with output.open("ab") as sink:
            return subprocess.Popen(
                ["/bin/sh", "-c", _ANNOUNCE, "sh", *command],
                stdin=pipe,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def watch(self, pid: int) -> None:
        """Watch a child that was started by other means, until `forget`."""
        os.write(self._ensure(), f"+ {pid}\n".encode())

    def remove_at_end(self, directory: Path) -> None:
        """Have `directory`, which is ours alone, removed when this process has ended."""
        name = str(directory.resolve())
        if "\n" in name:
            raise ValueError(f"a directory name with a line break cannot be passed on: {name!r}")
        os.write(self._ensure(), f"d {name}\n".encode())

    def forget(self, pid: int) -> None:
        """Stop watching a process that has ended, before its id is reused."""
        if self._owner == os.getpid():
            os.write(self._pipe, f"- {pid}\n".encode())


WATCHDOG = Watchdog()
"""The one watchdog of this Python process."""
