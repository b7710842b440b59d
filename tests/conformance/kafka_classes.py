"""Ask Kafka's own classes how they encode messages, in a Java program."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_javac


RELEASES = ("4.1.0", "4.4.0")
"""The releases of kafka-clients to compare with."""

_PROGRAM = Path(__file__).parent / "java" / "WireBytes.java"
_JSON = "com.fasterxml.jackson.core:jackson-databind:2.19.0"


def ask(release: str, questions: Sequence[dict[str, Any]]) -> list[str]:
    """Put questions to the classes of one release; returns one answer each (see the program)."""
    jars = fetch([f"org.apache.kafka:kafka-clients:{release}", _JSON])
    command = [
        str(find_javac().with_name("java")),
        *("-XX:+UseSerialGC", "-Xmx256m", "-cp", ":".join(map(str, jars))),
        str(_PROGRAM),
    ]
    done = subprocess.run(
        command,
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{_PROGRAM.name} failed with {release}:\n{done.stderr[-4000:]}")
    answers = done.stdout.splitlines()
    if len(answers) != len(questions):
        raise RuntimeError(f"{len(answers)} answers to {len(questions)} questions:\n{done.stderr}")
    return answers
