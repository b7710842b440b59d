#!/usr/bin/env python
"""Make the environment in which a reader follows the pages: the built wheel, and no checkout.

Packages of others come from the environment of this process, so that nothing has to be downloaded; what groupsdk brings
comes from the wheel alone. pytest's plugins are left out, since a reader does not have them.
"""

import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Collection
from importlib import metadata
from pathlib import Path
from typing import Final

from docs.regions import DOCS


ROOT: Final = DOCS.parent
_OWN: Final = ("groupsdk", "pip", "setuptools")
SPARK: Final = ("pyspark",)


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into a folder; return its path."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (wheel,) = folder.glob("groupsdk-*.whl")
    return wheel


def other_packages(folder: Path, without: Collection[str] = ()) -> Path:
    """Fill a folder with links to the packages of others that this process could import; return it.

    Args:
        folder: a new folder.
        without: packages that are left out.
    """
    own = {*_OWN, *without}
    for each in metadata.distributions():
        if each.name.startswith("pytest-"):
            own |= {path.parts[0] for path in each.files or ()}
    folder.mkdir(parents=True)
    for key in ("purelib", "platlib"):
        for path in Path(sysconfig.get_path(key)).iterdir():
            place = folder / path.name
            ours = path.name in own or path.name.split("-")[0] in own or path.suffix == ".pth"
            ours = ours or path.name.startswith(("_editable", "__editable"))
            if not ours and not place.exists():
                place.symlink_to(path)
    return folder


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack the wheel, for type checkers; return the folder."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder


def make_environment(folder: Path, wheel: Path, others: Path | None) -> Path:
    """Make a virtual environment with the wheel; return its folder.

    Args:
        folder: the place of the environment.
        wheel: the wheel of groupsdk.
        others: what `other_packages` has filled, which the environment can import from; None to download what the wheel
            and its extras need.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    if others is None:
        wanted = [f"{wheel}[cli,opentelemetry,prometheus,rest,scram]", "pytest"]
    else:
        wanted = ["--no-deps", "--no-index", str(wheel)]
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "others.pth").write_text(f"{others}\n", encoding="utf-8")
    subprocess.run([*install, "install", "-q", *wanted], check=True)
    pip = folder / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {" ".join(install)} "$@"\n', encoding="utf-8")
    pip.chmod(0o755)
    return folder
