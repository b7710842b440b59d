"""File systems of a test's own: small ones, and ones that refuse to be written."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """Mount a file system in memory on a directory; skip the test where the machine does not allow it.

    Containers commonly refuse it, even to root; other users need a sudo that asks for no password.

    Args:
        options: of mount, such as "size=2m".
    """
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    wanted = f"{options},uid={os.geteuid()},gid={os.getegid()}"
    mount = [*as_root, "mount", "-t", "tmpfs", "-o", wanted, "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        pytest.skip(f"cannot mount: {error}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"cannot mount: {error.stderr}")
    try:
        yield
    finally:
        subprocess.run([*as_root, "umount", str(place)], check=True)
