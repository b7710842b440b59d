"""Holds the documentation site to the pages: all are in it, and links lead where they led in the checkout.

`make site`, which .ci/run calls, builds it and fails on links that lead nowhere.
"""

import tomllib
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


def test_what_only_the_type_checker_reads_is_not_shown() -> None:
    page = DOCS / "workers.md"
    assert build_site.linked("a\n<!-- python\nimport x\n-->\nb\n", page) == "a\nb\n"


def test_the_reference_has_every_public_name(pages: dict[str, str]) -> None:
    for module in build_site.REFERENCE:
        assert pages[f"reference/{module}.md"].count("\n::: ") >= 1
    assert "\n::: groupsdk.types.Generation\n" in pages["reference/groupsdk.md"]
    assert "\n::: groupsdk.types.NO_GENERATION\n" in pages["reference/groupsdk.md"]


def test_programs_are_shown_whole(pages: dict[str, str]) -> None:
    source = Path(build_site.ROOT / "examples/worker.py").read_text()
    assert source in pages["examples/worker.md"]
