"""Find a Java of version 17 or later."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from groupsdk.testing.errors import MissingToolError


MINIMUM_VERSION = 17
"""The oldest Java that Kafka 4 brokers run on."""

_INSTALL_PATHS = (
    Path("/usr/lib/jvm"),
    Path("/opt/java"),
    Path("/Library/Java/JavaVirtualMachines"),
)
_PROPERTY = re.compile(r"^\s*(java\.[a-z.]+) = (.*)$", re.MULTILINE)
_PROBE_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Jvm:
    """A Java runtime: the program `java`, its `home` directory and its version, as it reported it."""

    java: Path
    home: Path
    version: int
    """The feature release, such as 17, 21 or 25."""
    full_version: str
    """The build, such as 17.0.15+6-Debian-1deb12u1: a class data archive fits only one build."""


def _candidates(program: str) -> Iterator[Path]:
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        yield Path(java_home, "bin", program)
    on_path = shutil.which(program)
    if on_path:
        yield Path(on_path)
    for root in _INSTALL_PATHS:
        yield from sorted(root.glob(f"*/bin/{program}"), reverse=True)
        yield from sorted(root.glob(f"*/Contents/Home/bin/{program}"), reverse=True)


@functools.lru_cache(maxsize=32)
def _probe(java: Path) -> Jvm | None:
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties: dict[str, str] = dict(_PROPERTY.findall(done.stderr))
    # Java 8 says 1.8 here, which later releases do not.
    specification = properties.get("java.specification.version", "").removeprefix("1.")
    if done.returncode != 0 or not specification.isdecimal():
        return None
    return Jvm(
        java=java,
        home=Path(properties.get("java.home", java.parent.parent)),
        version=int(specification),
        full_version=properties.get("java.runtime.version", specification),
    )


def find_java(minimum: int = MINIMUM_VERSION) -> Jvm:
    """Return a Java of version `minimum` or later.

    Looks at JAVA_HOME, then at PATH, then where Linux distributions and macOS install it.

    Raises:
        MissingToolError: there is none; the text lists what was found instead.
    """
    rejected = []
    for java in dict.fromkeys(_candidates("java")):
        if not java.is_file():
            continue
        jvm = _probe(java)
        if jvm is not None and jvm.version >= minimum:
            return jvm
        rejected.append(f"{java} ({'does not run' if jvm is None else f'Java {jvm.version}'})")
    found = f"; found only {', '.join(rejected)}" if rejected else ""
    raise MissingToolError(
        f"no Java {minimum} or later in JAVA_HOME, on PATH or in the usual places{found}. "
        f"Install one (Debian and Ubuntu: apt-get install openjdk-{minimum}-jdk-headless) "
        "or set JAVA_HOME to its directory"
    )


def find_javac(minimum: int = MINIMUM_VERSION) -> Path:
    """Find the Java compiler that belongs to a Java of version `minimum` or later.

    Raises:
        MissingToolError: there is none, for instance because only a runtime is installed.
    """
    for javac in dict.fromkeys(_candidates("javac")):
        jvm = _probe(javac.resolve().parent / "java") if javac.is_file() else None
        if jvm is not None and jvm.version >= minimum:
            return javac
    raise MissingToolError(
        f"no Java compiler (javac) of version {minimum} or later in JAVA_HOME, on PATH or in the usual places. "
        f"Install a JDK, not only a runtime (Debian and Ubuntu: apt-get install openjdk-{minimum}-jdk-headless)"
    )
