"""Holds README and docs to the code: generated parts are fresh, blocks run, names and files exist."""

import re
import signal
from pathlib import Path
from types import ModuleType

import pytest

import groupsdk
from docs import draw_states, list_settings
from groupsdk import AbstractCoordinator
from groupsdk.membership.state import TRANSITIONS
from groupsdk.testing import LocalKafka
from tests.examples.conftest import StartExample
from tests.examples.process import ROOT


README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str = "python") -> list[str]:
    """Returns the code blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("generator", [draw_states, list_settings])
def test_the_generated_parts_are_fresh(generator: ModuleType) -> None:
    name = generator.__name__
    for path, text in generator.pages().items():
        stale = path.read_text(encoding="utf-8") != text
        assert not stale, f"{path.name} is not up to date: run python -m {name}"


def test_the_diagram_has_every_transition() -> None:
    (diagram, _) = blocks(ROOT / "docs/protocol.md", "mermaid")
    assert diagram.count("-->") == len(TRANSITIONS) + 1


def test_the_design_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "docs/design.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_anchors_in_links_exist() -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs/workers.md").read_text(), re.MULTILINE)
    anchors = re.findall(r"docs/workers\.md#([\w-]+)", README.read_text())
    assert anchors
    assert set(anchors) <= {heading.lower().replace(" ", "-") for heading in headings}


def test_the_file_map_names_what_is_there() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/design.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        first, *others = re.findall(r"`([^`]+)`", row)
        places = [Path(first), *(_beside(Path(first), other) for other in others)]
        for place in places:
            assert (ROOT / place).exists(), f"docs/design.md names {place}"


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
    return any(hasattr(owner, name) for owner in owners)


def test_the_settings_of_the_readme_exist() -> None:
    text = README.read_text()
    keys = set(re.findall(r"`((?:ssl|sasl|security)\.[a-z.]+)[`=]", text))
    known = {
        line.split("`")[1]
        for line in list_settings.settings_table(groupsdk.SecuritySettings).splitlines()[2:]
    }
    assert len(keys) > 8
    assert keys <= known


def test_the_readme_has_the_markers_of_the_benchmarks() -> None:
    text = README.read_text()
    assert text.count("<!-- benchmarks:begin -->") == text.count("<!-- benchmarks:end -->") == 1


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("number", "line"),
    [
        (0, r"^generation 1 has shards \[0, 1, 2, 3, 4, 5, 6, 7\]$"),
        (1, r"^generation 1 has everything$"),
    ],
)
def test_the_worker_of_the_readme_runs_as_it_stands(
    number: int,
    line: str,
    kafka: LocalKafka,
    group_id: str,
    start_example: StartExample,
    tmp_path: Path,
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(on(kafka, group_id, blocks(README)[number]))
    worker = start_example(str(script))
    worker.wait_for(line)
    worker.end(signal.SIGINT)


@pytest.mark.kafka
def test_the_other_blocks_of_the_readme_run(
    kafka: LocalKafka, group_id: str, start_example: StartExample, tmp_path: Path
) -> None:
    worker, _, *others = blocks(README)
    definition = worker.partition("with Worker")[0]
    script = tmp_path / "blocks.py"
    script.write_text(on(kafka, group_id, "\n".join([definition, *others, "print('all ran')"])))
    process = start_example(str(script))
    process.wait_for(r"^a result, written under generation \d+$")
    process.wait_for("^unknown setting 'sesion_timeout_ms'; did you mean session.timeout.ms")
    process.wait_for("^b'one' read in generation 1$")
    process.wait_for("^all ran$")
    assert process.end() == 0
    assert len(others) == 6


def on(kafka: LocalKafka, group_id: str, code: str) -> str:
    """Returns code with the addresses and groups of a test."""
    code = code.replace("localhost:9092", kafka.bootstrap_servers)
    return re.sub(r'"(async-)?workers"', f'"{group_id}"', code)


def test_the_brokers_page_runs(tmp_path: Path, start_example: StartExample) -> None:
    fixture, *others = blocks(ROOT / "docs/broker.md")
    assert len(others) == 5
    script = tmp_path / "blocks.py"
    script.write_text("\n".join([*others, "print('all ran')"]))
    process = start_example(str(script))
    process.wait_for(r"^127\.0\.0\.1:\d+$")
    process.wait_for("^1 node answers the admin$")
    process.wait_for("^all ran$")
    assert process.end() == 0

    test = tmp_path / "test_orders.py"
    test.write_text(fixture)
    run = start_example("-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", str(test))
    run.wait_for("1 passed")
    assert run.end() == 0
