"""Holds README and docs to the code: generated parts are fresh, blocks run, names and files exist."""

import re
import signal
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import groupsdk
from docs import check_types, draw_states, list_commands, list_public, list_settings
from groupsdk import AbstractCoordinator
from groupsdk.member.classic.state import TRANSITIONS
from groupsdk.member.consumer.state import TRANSITIONS as CONSUMER_TRANSITIONS
from groupsdk.testing import LocalKafka
from tests.benchmarks.__main__ import BEGIN, END, PAGE, write_page
from tests.examples.conftest import StartExample
from tests.examples.process import ROOT
from tests.support.scripted_broker import refusing_port


README = ROOT / "README.md"
WORKERS = ROOT / "docs/workers.md"
SHARDS = ROOT / "docs/shards.md"
FIRST_LINE = "gained shard-0 shard-1 shard-2 shard-3 shard-4 shard-5 shard-6 shard-7"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str = "python") -> list[str]:
    """Returns the code blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("generator", [draw_states, list_commands, list_public, list_settings])
def test_the_generated_parts_are_fresh(generator: ModuleType) -> None:
    name = generator.__name__
    for path, text in generator.pages().items():
        stale = path.read_text(encoding="utf-8") != text
        assert not stale, f"{path.name} is not up to date: run python -m {name}"


def test_each_program_is_a_module_with_the_lines_of_its_page(tmp_path: Path) -> None:
    page = tmp_path / "a-page.md"
    page.write_text(
        "# Page\nSave this as `work.py`:\n```python\nx = 1\n```\n```sh\nls\n```\n"
        "```python\nfrom work import x\n```\n<!-- run: goes on -->\n```python\nprint(x)\n```\n"
    )
    first, second = check_types.modules_of(page)
    assert first == ("a_page_work", "\n\n\nx = 1\n")
    assert second == (
        "a_page_1",
        "\n" * 9 + "from a_page_work import x\n" + "\n" * 3 + "print(x)\n",
    )
    assert check_types.write_modules(tmp_path / "modules") > len(PAGES)


def test_the_diagram_has_every_transition() -> None:
    diagrams = blocks(ROOT / "docs/protocol.md", "mermaid")
    assert diagrams[0].count("-->") == len(TRANSITIONS) + 1
    assert diagrams[-1].count("-->") == len(CONSUMER_TRANSITIONS) + 1


def test_the_design_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "docs/design.md").read_text().splitlines()) <= 230


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_a_worker_with_a_wrong_port_says_so_without_any_setup_of_logging(
    start_example: StartExample, tmp_path: Path
) -> None:
    script = tmp_path / "worker.py"
    with refusing_port() as port:
        script.write_text(blocks(README)[0].replace("localhost:9092", f"127.0.0.1:{port}"))
        worker = start_example(str(script))
        line = worker.wait_for("no group coordinator for").string
    assert (
        "member=- generation=-1: no group coordinator for 5 s: no broker could be reached" in line
    )
    assert line.endswith(f"still trying; check bootstrap.servers (127.0.0.1:{port})")


def anchors_of(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub writes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_anchors_in_links_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(((?!https?:)[^)#]*)#([^)]+)\)", page.read_text()):
        there = (page.parent / target) if target else page
        assert anchor in anchors_of(there), f"{page.name} links to {target}#{anchor}"


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    text = README.read_text()
    shown = re.sub(r"^<!-- run:.*?-->\n", "", text, flags=re.DOTALL | re.MULTILINE)
    assert len(shown.splitlines()) <= 160
    for page in PAGES[1:]:
        assert f"(docs/{page.name}" in text, f"README.md does not link to {page.name}"


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    number = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\d.,]*\d)")
    _, _, section = README.read_text().partition("## Five figures")
    rows = re.findall(r"^\| (?!Measured|---)(.*) \|$", section, re.MULTILINE)
    measured = PAGE.read_text()
    sources = (
        ("start of 50 members at once", "a leave from 10 members at once"),
        ("native calls of 5 s that hold the GIL",),
        ("1",),
        ("Heartbeat, 64 connections",),
        ("H100k-tiers-churn x1000", "R100k-dozen-churn x1000"),
    )
    for row, names in zip(rows, sources, strict=True):
        _, *cells = row.split(" | ")
        for cell in cells:
            assert number.search(cell), row
        lines = [
            each
            for each in measured.splitlines()
            if each.startswith(tuple(map("| {} |".format, names)))
        ]
        assert len(lines) == len(names)
        old = set(number.findall(" ".join(cells))) - set(number.findall(" ".join(lines)))
        assert not old, f"README.md has {old}, which is not in {names} of docs/benchmarks.md"
    besides = re.findall(r"^Behind as well.*?\n\n", section, re.MULTILINE | re.DOTALL)
    assert set(number.findall(*besides)) <= set(number.findall(measured))


def test_the_file_map_names_what_is_there() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/design.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        first, *others = re.findall(r"`([^`]+)`", row)
        places = [Path(first), *(_beside(Path(first), other) for other in others)]
        for place in places:
            assert (ROOT / place).exists(), f"docs/design.md names {place}"


def test_the_questions_about_the_broker_are_answered_by_what_is_there() -> None:
    _, _, section = (ROOT / "docs/broker-design.md").read_text().partition("## Where to look")
    rows = re.findall(r"^\| Where .*\|$", section.partition("\n## ")[0], re.MULTILINE)
    assert len(rows) > 5
    for row in rows:
        names = re.findall(r"`([^`]+)`", row)
        folder, text = Path(), ""
        for name in (each for each in names if each.endswith(".py")):
            path = Path(name) if "/" in name else folder / name
            folder = path.parent
            text += (ROOT / "groupsdk" / path).read_text(encoding="utf-8")
        for name in (each for each in names if not each.endswith(".py")):
            assert re.search(rf"\b{name.rpartition('.')[2]}\b", text), row


def _beside(first: Path, other: str) -> Path:
    """Returns where the second file of a row is: in the folder of the first, or under its own name."""
    return Path(other) if (ROOT / other).exists() else first.parent / other


def test_the_names_beside_java_exist() -> None:
    rows = re.findall(
        r"^\| `.*?\| (.*?) \|", (ROOT / "docs/java-names.md").read_text(), re.MULTILINE
    )
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(names) > 25
    for name in names:
        assert exists(name), f"docs/java-names.md names {name}"


def exists(text: str) -> bool:
    """Says whether a name of the table exists: exported, a method, a module's or a field of a value."""
    name = re.sub(r"\(.*?\)", "", text).partition(" ")[0]
    if name.startswith("snapshot."):
        return hasattr(groupsdk.MemberSnapshot, name.partition(".")[2])
    if name.startswith("groupsdk."):
        module, _, attribute = name.rpartition(".")
        return (ROOT / name.replace(".", "/")).is_dir() or hasattr(
            __import__(module, fromlist=[attribute]), attribute
        )
    owners = (groupsdk, AbstractCoordinator, groupsdk.Generation)
    return any(hasattr(owner, name) or name in owner.__annotations__ for owner in owners)


def test_the_comparison_is_with_the_versions_that_tests_run() -> None:
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["test"]
    pinned = dict(each.split("==") for each in group if isinstance(each, str) and "==" in each)
    page = (ROOT / "docs/comparison.md").read_text()
    for client in ("kafka-python", "aiokafka"):
        assert f"{client} {pinned[client]}" in page


def test_the_settings_by_what_you_have_exist() -> None:
    _, _, table = (ROOT / "docs/configuration.md").read_text().partition("| You have |")
    keys = set(re.findall(r"`((?:ssl|sasl|security)\.[a-z.]+)[`=]", table.partition("\n\n")[0]))
    known = {
        line.split("`")[1]
        for line in list_settings.settings_table(groupsdk.SecuritySettings).splitlines()[2:]
    }
    assert len(keys) > 8
    assert keys <= known


def test_a_run_of_benchmarks_replaces_its_tables_on_the_page(tmp_path: Path) -> None:
    before = PAGE.read_text()
    page = tmp_path / PAGE.name
    page.write_text(before)
    head, *tables = re.split(r"^(?=\*\*)", _benchmarks(before), flags=re.MULTILINE)
    assert len(tables) > 10
    title = tables[1].partition("\n")[0]

    write_page(head.strip(), [f"{title}\n\nmeasured again\n", "**A new one**\n\nfigures\n"], page)

    after = page.read_text()
    assert after.partition(BEGIN)[0] == before.partition(BEGIN)[0]
    assert after.partition(END)[2] == before.partition(END)[2]
    again = re.split(r"^(?=\*\*)", _benchmarks(after), flags=re.MULTILINE)[1:]
    new, replaced = "**A new one**\n\nfigures\n\n", f"{title}\n\nmeasured again\n\n"
    assert sorted(map(str.strip, again)) == sorted(
        map(str.strip, [new, tables[0], replaced, *tables[2:]])
    )

    page.write_text("# Benchmarks\n")
    with pytest.raises(ValueError, match=r"benchmarks\.md lacks <!-- benchmarks:begin -->"):
        write_page(head, tables, page)


def _benchmarks(text: str) -> str:
    """Returns what stands between the marks of the benchmarks."""
    assert text.count(BEGIN) == text.count(END) == 1
    return text.partition(BEGIN)[2].partition(END)[0]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("page", "line"),
    [
        (README, f"^{FIRST_LINE}$"),
        (WORKERS, r"^generation 1 has shards \[0, 1, 2, 3, 4, 5, 6, 7\]$"),
        (SHARDS, r"^gained site-0 site-1 site-2 site-3 site-4 site-5 site-6 site-7$"),
    ],
    ids=["README", "workers", "shards"],
)
def test_the_worker_of_a_page_runs_as_it_stands(
    page: Path,
    line: str,
    kafka: LocalKafka,
    group_id: str,
    start_example: StartExample,
    tmp_path: Path,
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(on(kafka, group_id, blocks(page)[0]))
    worker = start_example(str(script))
    worker.wait_for(line)
    worker.end(signal.SIGINT)


def on(kafka: LocalKafka, group_id: str, code: str) -> str:
    """Returns code with the addresses and groups of a test."""
    code = code.replace("localhost:9092", kafka.bootstrap_servers)
    return re.sub(r'"(async-)?workers"|"crawl"', f'"{group_id}"', code)


_LOCAL = "with LocalKafka("


@pytest.mark.kafka
def test_the_real_kafka_of_the_brokers_page_starts(
    tmp_path: Path, start_example: StartExample
) -> None:
    (block,) = (each for each in blocks(ROOT / "docs/broker.md") if _LOCAL in each)
    script = tmp_path / "block.py"
    script.write_text(block)
    process = start_example(str(script))
    process.wait_for(r"^Apache Kafka at 127\.0\.0\.1:\d+$")
    assert process.end() == 0
