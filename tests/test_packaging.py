"""Holds the project's metadata, its description on an index, and every Python of the machine."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest


ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_tools_for_development_are_no_extras(declared: dict[str, Any]) -> None:
    extras = declared["project"]["optional-dependencies"]
    assert {"test", "lint"} <= declared["dependency-groups"].keys()
    assert not {"test", "lint", "dev"} & extras.keys()


def test_the_classifiers_name_every_python(declared: dict[str, Any]) -> None:
    project = declared["project"]
    named = [each for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert [int(each.rpartition(".")[2]) for each in named] == [11, 12, 13, 14]
    assert project["requires-python"] == ">=3.11"
    assert project["authors"]


def test_an_index_shows_no_link_that_leads_nowhere(declared: dict[str, Any]) -> None:
    hook = declared["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join(
        (ROOT / each["path"]).read_text(encoding="utf-8") if "path" in each else each["text"]
        for each in hook["fragments"]
    )
    before = text
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)

    assert re.findall(r"\]\((?!https?://)", before), "nothing is left to be changed"
    assert not re.findall(r"\]\((?!https?://)[^)\n]*\)", text)
    assert "*Picture, in the source distribution: Partitions moved" in text
    blocks = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
    assert blocks.findall(text) == blocks.findall(before), "code was taken for links"
    assert len(before.splitlines()) == len(text.splitlines())


def test_the_source_distribution_has_what_the_makefile_calls(declared: dict[str, Any]) -> None:
    left_out = declared["tool"]["hatch"]["build"]["targets"]["sdist"]["exclude"]
    called = set(re.findall(r"\.ci/\w+", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert called >= {".ci/setup", ".ci/tests", ".ci/wheel", ".ci/versions"}
    for script in called:
        assert os.access(ROOT / script, os.X_OK), script
        assert f"/{script}" not in left_out
    assert left_out == ["/.venv"]


def test_every_python_of_the_machine_compiles_it(tmp_path: Path) -> None:
    # The quick form of `make versions`, which installs the wheel for each of them and uses it.
    listed = subprocess.run(
        [ROOT / ".ci/versions", "--list"], capture_output=True, text=True, check=True
    )
    pythons = listed.stdout.split()
    others = [each for each in pythons if os.path.realpath(sys.executable) != each]
    for python in others:
        done = subprocess.run(
            [python, "-W", "error", "-m", "compileall", "-q", "groupsdk", "assignors", "examples"],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / Path(python).name)},
        )
        assert done.returncode == 0, f"{python}: {done.stdout}{done.stderr}"
