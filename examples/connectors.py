"""Three small connectors: follow files, watch a directory, poll a URL.

    python -m groupsdk worker examples.connectors:app --group demo --bootstrap-servers localhost:9092 --rest :8083
    python -m groupsdk.connect examples.connectors:app --standalone /tmp/demo.json --rest :8083

Then, for example:

    curl -X PUT localhost:8083/connectors/logs/config -H 'Content-Type: application/json' \\
         -d '{"connector.class": "FileTail", "files": "/var/log/syslog", "into": "/tmp/lines"}'
"""

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from groupsdk.connect import Connector, ConnectorConfigError, Task, TaskContext, Worker


app = Worker()
_CHUNK = 65_536


def seconds(config: Mapping[str, str], key: str, default: float) -> float:
    """Read a setting that is a number of seconds."""
    text = config.get(key, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise ConnectorConfigError(key, f"must be seconds, more than 0, not {text!r}")
    return seconds


def write(config: Mapping[str, str], task: Task, context: TaskContext, **fields: object) -> None:
    """Append a line of JSON, with the fencing token by which a reader passes over what came too late."""
    line = json.dumps({"task": task.id, "token": context.generation, **fields}, default=str)
    with Path(config["into"]).open("a", encoding="utf-8") as out:
        out.write(line + "\n")


@app.connector
class FileTail(Connector):
    """Follows text files: a task for each, which keeps how far it has read. A line may come twice after a crash."""

    required = ("files", "into")

    @override
    def plan(self) -> list[Task]:
        return [Task(name) for name in self.config["files"].split(",")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        state = context.state or {"at": 0, "inode": None}
        at, inode = state["at"], state["inode"]
        while not context.stop.wait(0.1):
            path = Path(task.id)
            if not path.exists():
                continue
            about = path.stat()
            if about.st_ino != inode or about.st_size < at:
                at, inode = 0, about.st_ino  # rotated, or cut
            with path.open("rb") as file:
                file.seek(at)
                whole, newline, _ = file.read(_CHUNK).rpartition(b"\n")
            if newline:
                for line in whole.decode(errors="replace").splitlines():
                    write(self.config, task, context, line=line)
                at += len(whole) + 1
                context.commit({"at": at, "inode": inode})


@app.connector
class DirectoryWatcher(Connector):
    """Says which files of a directory come, change and go; `tasks` share the names among them."""

    required = ("directory", "into")

    @override
    def plan(self) -> list[Task]:
        count = int(self.config.get("tasks", "1"))
        return [Task(f"part-{number}", {"part": number, "of": count}) for number in range(count)]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        known = dict((context.state or {}).get("files", {}))
        part, count = task.payload["part"], task.payload["of"]
        while not context.stop.wait(0.1):
            seen = {
                path.name: [path.stat().st_mtime_ns, path.stat().st_size]
                for path in sorted(Path(self.config["directory"]).iterdir())
                if path.is_file() and hashlib.md5(path.name.encode()).digest()[0] % count == part
            }
            changed = {name for name in seen | known if seen.get(name) != known.get(name)}
            for name in sorted(changed):
                event = "gone" if name not in seen else "changed" if name in known else "new"
                write(self.config, task, context, file=name, event=event)
            if changed:
                known = seen
                context.commit({"files": known})


@app.connector
class HttpPoller(Connector):
    """Asks URLs again and again, and says what changed; asks the server only for what is new (ETag)."""

    required = ("urls", "into")

    @override
    def plan(self) -> list[Task]:
        return [Task(url) for url in self.config["urls"].split(",")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        state = dict(context.state or {})
        while not context.stop.wait(seconds(self.config, "every", 5.0)):
            tag = state.get("etag")
            request = urllib.request.Request(task.id, headers={"If-None-Match": tag} if tag else {})
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    body, tag = answer.read(1_000_000), answer.headers.get("ETag")
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 304:
                    continue
                raise  # the worker tries again, later each time
            digest = hashlib.sha256(body).hexdigest()
            if digest != state.get("digest"):
                write(self.config, task, context, status=200, bytes=len(body), digest=digest)
                state = {"digest": digest, "etag": tag}
                context.commit(state)
