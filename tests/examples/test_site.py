"""Holds the documentation site to the pages: all are in it, and links lead where they led in the checkout.

`make site`, which .ci/run calls, builds it and fails on links that lead nowhere.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from docs import build_site
from docs.regions import DOCS


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {place.as_posix(): text for place, text in build_site.pages()}


def in_the_navigation() -> set[str]:
    settings: Any = tomllib.loads((build_site.ROOT / ".zensical.toml").read_text())

    def places(entries: list[dict[str, Any]]) -> set[str]:
        found: set[str] = set()
        for entry in entries:
            (value,) = entry.values()
            found |= {value} if isinstance(value, str) else places(value)
        return found

    return places(settings["project"]["nav"])


def test_every_page_is_in_the_navigation(pages: dict[str, str]) -> None:
    shown = {place for place in pages if not place.startswith("examples/")} | {"examples/index.md"}
    assert in_the_navigation() == shown


def test_links_are_rewritten_for_the_site() -> None:
    root, page = build_site.ROOT, DOCS / "workers.md"
    text = "[a](../README.md#start) [b](consumer.md) [c](../examples/worker.py) [d](https://e.example/)"
    assert build_site.linked(text, page) == (
        "[a](index.md#start) [b](consumer.md) [c](examples/worker.md) [d](https://e.example/)"
    )
    assert build_site.linked("[x](docs/consumer.md#y) [z](#z)", root / "README.md") == (
        "[x](consumer.md#y) [z](#z)"
    )
    assert build_site.linked("see [it](../tests/conftest.py)", page) == "see `it`"
    with pytest.raises(ValueError, match=r"docs/workers.md links to nowhere.md, which does not"):
        build_site.linked("[a](nowhere.md)", page)


def test_marks_and_blocks_for_checkers_are_not_shown() -> None:
    page = DOCS / "workers.md"
    assert build_site.linked("a\n<!-- python\nimport x\n-->\nb\n", page) == "a\nb\n"
    marks = '<!-- run: until "x" -->\n```sh\nls\n```\n<!-- run: prints "y"\nls\n-->\n'
    assert build_site.linked(marks, page) == "```sh\nls\n```\n"


def test_the_reference_has_every_public_name(pages: dict[str, str]) -> None:
    for module in build_site.REFERENCE:
        assert pages[f"reference/{module}.md"].count("\n::: ") >= 1
    assert "\n::: groupsdk.types.Generation\n" in pages["reference/groupsdk.md"]
    assert "\n::: groupsdk.types.NO_GENERATION\n" in pages["reference/groupsdk.md"]


def test_programs_are_shown_whole(pages: dict[str, str]) -> None:
    source = Path(build_site.ROOT / "examples/worker.py").read_text()
    assert source in pages["examples/worker.md"]


def _required(wanted: Iterable[str]) -> set[str]:
    """Returns the distributions that requirements name, and those that they need in turn."""
    found: set[str] = set()
    names = {re.split(r"[^\w.-]", each, maxsplit=1)[0].lower().replace("_", "-") for each in wanted}
    while names:
        found |= names
        needed: set[str] = set()
        for name in names:
            for each in metadata.requires(name) or ():
                if "extra ==" not in each:
                    needed.add(re.split(r"[^\w.-]", each, maxsplit=1)[0].lower().replace("_", "-"))
        names = {each for each in needed - found if _is_installed(each)}
    return found


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def test_the_site_is_built_with_the_packages_of_its_own_group() -> None:
    declared: Any = tomllib.loads((build_site.ROOT / "pyproject.toml").read_text())
    program = (
        "import sys; before = set(sys.modules); from docs import build_site; list(build_site.pages());"
        "print(*{each.partition('.')[0] for each in set(sys.modules) - before})"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=build_site.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = declared["project"]["dependencies"]
    group = [
        each for each in declared["dependency-groups"]["docs"] if _is_installed(each.split(">")[0])
    ]
    allowed = _required([*wanted, *group])
    distributions = metadata.packages_distributions()
    imported = {name: distributions[name] for name in run.stdout.split() if name in distributions}
    for name, owners in imported.items():
        if name not in ("groupsdk", "assignors", "docs"):
            owned_by = {each.lower().replace("_", "-") for each in owners}
            assert owned_by & allowed, f"make site needs {owned_by}, which its group does not name"
