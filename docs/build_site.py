#!/usr/bin/env python
"""Build the documentation site into build/site: `python -m docs.build_site` (`make site` installs what it needs).

The pages of the site are README.md (as its home), the pages of docs/, a page for each program of examples/, and an API
reference made from docstrings. Links between them are rewritten; a link that leads nowhere fails the build.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from docs.regions import DOCS


ROOT: Final = DOCS.parent
SOURCE: Final = ROOT / "build" / "site_source"
SITE: Final = ROOT / "build" / "site"
_LINK: Final = re.compile(r"(?<=\]\()(?!https?://|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
_HIDDEN: Final = re.compile(
    r"^<!-- (?:python\n.*?^-->|run:[^\n]*?(?: -->|\n.*?^-->))\n", re.DOTALL | re.MULTILINE
)

REFERENCE: Final = {
    "groupsdk": "Members: coordinators, members, values",
    "groupsdk.errors": "Errors",
    "groupsdk.error_code": "Kafka's error codes",
    "groupsdk.clock": "Clocks",
    "groupsdk.shards": "Shards",
    "groupsdk.consumer": "Consumer",
    "groupsdk.consumer.aio": "Consumer for asyncio",
    "groupsdk.consumer.processing": "PartitionProcessor",
    "groupsdk.consumer.record_errors": "Records that cannot be handled",
    "groupsdk.consumer.transactions": "TransactionLoop",
    "groupsdk.assignment": "The contract of assignors",
    "groupsdk.assignment.subscriptions": "Members' metadata, decoded",
    "assignors": "Assignors",
    "groupsdk.election": "Leader election",
    "groupsdk.connect": "Connectors and tasks",
    "groupsdk.admin": "Groups from outside",
    "groupsdk.verdict": "Verdicts over groups",
    "groupsdk.verdict.collecting": "Observations of groups",
    "groupsdk.history": "History",
    "groupsdk.history.local": "History without Spark",
    "groupsdk.broker": "EmbeddedBroker",
    "groupsdk.testing": "A real Kafka, and checks, for tests",
    "groupsdk.telemetry": "Metrics registry, and logs",
    "groupsdk.telemetry.prometheus": "Prometheus",
    "groupsdk.telemetry.opentelemetry": "OpenTelemetry",
}
"""The public modules, in the order of the reference's pages, with their titles."""


def parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module, which is not imported: it may need a package that is not installed."""
    place = ROOT.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def assigned(tree: ast.Module, name: str) -> Any:
    """Return the literal that a module assigns to a name; None if it assigns none."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == name:
                return ast.literal_eval(node.value)
    return None


def public_names(module: str) -> list[str]:
    """List the public names of a module: its `__all__`, else the classes and functions that it defines."""
    tree = parsed(module)
    names = assigned(tree, "__all__") or [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if module == "groupsdk":
        names = [*names, *assigned(tree, "_HEAVY_HOMES")]
    return sorted(name for name in names if not name.startswith("_"))


def home_of(module: str, name: str) -> str:
    """Return the full name under which a public name is defined, which is where its docstring stands."""
    tree = parsed(module)
    for table in ("_HOMES", "_HEAVY_HOMES"):
        homes: dict[str, str] = assigned(tree, table) or {}
        if name in homes:
            return home_of(homes[name], name)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return home_of(node.module, alias.name)
    return f"{module}.{name}"


def reference_page(module: str, title: str) -> str:
    """Return the page of the API reference for one public module, with a directive for each public name."""
    said = " ".join((ast.get_docstring(parsed(module)) or "").split())
    lines = [f"# {title}", "", f"Module `{module}`. {said}", ""]
    for name in public_names(module):
        lines += [f"::: {home_of(module, name)}", ""]
    return "\n".join(lines)


def example_page(program: Path) -> str:
    """Return the page that shows a program of examples/."""
    source = program.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(source)) or program.stem
    title, _, _ = said.partition("\n")
    name = program.relative_to(ROOT).as_posix()
    return f"# {name}\n\n{title}\n\n```python\n{source}```\n"


def place_of(path: Path) -> Path | None:
    """Return where the site has a file of the project, relative to the site's root; None where it has none."""
    if path == ROOT / "README.md":
        return Path("index.md")
    if path in (ROOT / "CHANGELOG.md", ROOT / "LICENSE"):
        return Path(f"{path.stem.lower()}.md")
    if path.parent == DOCS and path.suffix in (".md", ".svg", ".json"):
        return Path(path.name)
    if path.parent == ROOT / "examples" and path.suffix == ".py" and path.stem != "__init__":
        return Path("examples") / f"{path.stem}.md"
    if path == ROOT / "examples":
        return Path("examples/index.md")
    return None


def linked(text: str, page: Path) -> str:
    """Return a page's text with its links as the site needs them.

    Args:
        text: Markdown.
        page: the file of the project that it is from; links are relative to it.
    """
    here = place_of(page)
    assert here is not None

    def rewritten(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve()
        if not target.exists():
            raise ValueError(f"{page.relative_to(ROOT)} links to {found[1]}, which does not exist")
        place = place_of(target)
        if place is None:
            return ""  # a file that the site does not show, as tests/conftest.py
        up = "../" * (len(here.parts) - 1)
        return f"{up}{place.as_posix()}{found[2] or ''}"

    text = _LINK.sub(rewritten, text)
    return re.sub(r"\[([^\]\n]+)\]\(\)", r"`\1`", _HIDDEN.sub("", text))


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page's place in the site and its text."""
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))):
        place = place_of(page)
        assert place is not None
        yield place, linked(page.read_text(encoding="utf-8"), page)
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    yield Path("license.md"), f"# License\n\n```text\n{licence}```\n"
    rows: list[str] = []
    for program in sorted((ROOT / "examples").glob("*.py")):
        place = place_of(program)
        if place is not None:
            text = example_page(program)
            rows.append(f"- [{program.name}]({place.name}): {text.splitlines()[2]}")
            yield place, text
    yield Path("examples/index.md"), "# Examples\n\n" + "\n".join(rows) + "\n"
    for module, title in REFERENCE.items():
        yield Path("reference") / f"{module}.md", reference_page(module, title)


def write_source() -> int:
    """Write all pages, pictures and files to build/site_source; return the number of pages."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    count = 0
    for place, text in pages():
        path = SOURCE / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        count += 1
    for other in (*DOCS.glob("*.svg"), *DOCS.glob("*.json")):
        shutil.copy(other, SOURCE)
    return count


def build() -> int:
    """Write the pages, build the site strictly, and return the exit status."""
    count = write_source()
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", ".zensical.toml"],
        cwd=ROOT,
        check=False,
    )
    if done.returncode == 0:
        sys.stdout.write(f"{count} pages: {SITE / 'index.html'}\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(build())
