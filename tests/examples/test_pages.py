"""Follows every page as its reader does, in an empty directory, with groupsdk from the wheel (`docs.run_pages`).

This is the quick form: packages of others are those of the tests, and blocks that need the network, Spark or a real Kafka
are left out. `make pages` runs those as well.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import page_blocks, run_pages
from docs.build_site import REFERENCE, public_names
from docs.page_blocks import Block, PageError, blocks, pages, programs
from tests.support.cases import each_case


PAGES = [
    page for page in pages() if any(each.language in ("sh", "python") for each in blocks(page))
]
MOST_LEFT_OUT = 20
"""A page that cannot be followed is one that nobody has followed."""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> run_pages.Tools:
    """The wheel, and an environment with it."""
    return run_pages.Tools.make(tmp_path_factory.mktemp("reader"), whole=False)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_can_be_followed(page: Path, tools: run_pages.Tools) -> None:
    run_pages.follow(page, tools)


def marked(*names: str) -> Iterator[Block]:
    """Yields the blocks of all pages with one of the marks."""
    for page in pages():
        yield from (each for each in blocks(page) if not {*names}.isdisjoint(each.marks))


def test_blocks_that_are_left_out_have_a_reason_and_are_few() -> None:
    left_out = list(marked("skip", "whole"))
    assert all(each.marks.get("why") or each.marks.get("why_whole") for each in left_out)
    assert len(left_out) <= MOST_LEFT_OUT, [each.place for each in left_out]


def test_every_block_names_its_language() -> None:
    for page in pages():
        fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
        nameless = [index for index, each in enumerate(fences) if index % 2 == 0 and not each]
        assert not nameless, f"{page.name} has blocks without a language: {nameless}"


@each_case("page", pages())
def test_pages_import_public_names_alone(page: Path) -> None:
    for program in programs(page):
        source = program.source
        for module, names in re.findall(
            r"^from ((?:groupsdk|assignors)[\w.]*) import (\([^)]*\)|[^#\n]*)", source, re.MULTILINE
        ):
            assert module in REFERENCE, f"{program.blocks[0].place}: {module} is not public"
            for name in re.findall(r"\w+", names):
                assert name in public_names(module), f"{program.blocks[0].place}: {module}.{name}"


def test_block_has_its_marks_its_file_and_the_hidden_lines_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '<!-- run: background until "up"\nstart\n-->\n<!-- python\nlimit = 3\n-->\n'
        "Save this as `a.py`:\n\n```python\nprint(limit)\n```\n"
        '<!-- run: goes on; prints "a; b" -->\n```python\nx\n```\n<!-- run: skip because so -->\n```sh\nls\n```\n'
    )
    start, first, second, last = blocks(page)
    assert (start.code, start.hidden) == ("start\n", True)
    assert start.marks == {"background": "background", "until": "up"}
    assert (first.file, first.prelude, first.line) == ("a.py", "limit = 3\n", 10)
    assert second.marks == {"goes_on": "goes on", "prints": "a; b"}
    assert last.marks == {"skip": "skip", "why": "so"}
    _, program, _ = programs(page)
    assert program.last is not program.blocks[0]
    assert program.source.splitlines()[4:14] == [
        "limit = 3",
        *[""] * 4,
        "print(limit)",
        *[""] * 3,
        "x",
    ]


@pytest.mark.parametrize(
    "mark", ["skip", "skip because", 'untill "x"', "prints up"], ids=lambda mark: mark
)
def test_unknown_mark_is_an_error(mark: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- run: {mark} -->\n```sh\nls\n```\n")
    with pytest.raises(PageError, match=r"page\.md:1: unknown mark"):
        list(page_blocks.blocks(page))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


@each_case(
    ("text", "said"),
    [
        ("```sh\nfalse\n```\n", r"page\.md:2 ended with 1"),
        ('<!-- run: prints "two" -->\n```sh\necho one\n```\n', "did not print 'two'"),
        ('<!-- run: until "two" -->\n```sh\necho one\n```\n', "did not print 'two'"),
        ("```python\nraise SystemExit(3)\n```\n", "ended with 3"),
    ],
)
def test_block_that_does_something_else_fails(
    text: str, said: str, page: Path, tools: run_pages.Tools
) -> None:
    page.write_text(text)
    with pytest.raises(run_pages.FailedBlockError, match=said):
        run_pages.follow(page, tools)


def test_terminal_keeps_its_place_its_variables_and_what_runs(
    page: Path, tools: run_pages.Tools
) -> None:
    page.write_text(
        "```sh\nmkdir a\ncd a\nexport NAME=x\n```\n"
        '<!-- run: prints "/a x$" -->\n```sh\necho $PWD $NAME\n```\n'
        '<!-- run: background until "up" -->\n```sh\necho up\nsleep 1000\n```\n'
        "```sh\nkill -9 PID\n```\n"
        '<!-- run: until "here" -->\n```python\nprint("here")\nimport time; time.sleep(1000)\n```\n'
    )
    reader = run_pages.follow(page, tools)
    assert [each.language for each in reader.run] == ["sh", "sh", "sh", "sh", "python"]
