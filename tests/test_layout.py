"""Holds the layout: each module is one idea whole, documented and tested, in a part that keeps within its budget."""

import ast
import re
import subprocess
import warnings
from collections import defaultdict
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("groupsdk", "assignors")

TOP_LEVEL = {
    *PACKAGES,
    "tests",
    "examples",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
}

# Modules, or whole folders of them, whose tests stand under another name, each with the reason.
TESTED_ELSEWHERE: dict[str, tuple[str, str]] = {
    "groupsdk/broker/coordinator/classic/responses.py": (
        "tests/broker/coordinator/classic/test_member_requests.py",
        "each request has one",
    ),
    "groupsdk/broker/coordinator/consumer": (
        "tests/broker/coordinator/consumer/test_golden_sequences.py",
        "each request goes through most of it",
    ),
    "groupsdk/connect/__main__.py": ("tests/cli/test_worker.py", "the command as a module"),
    "groupsdk/consumer/keywords.py": (
        "tests/settings/test_keywords.py",
        "made with those of the member",
    ),
    "groupsdk/history/__main__.py": ("tests/cli/test_history.py", "calls the command"),
    "groupsdk/history/follow/archive.py": ("tests/spark/test_live.py", "needs a Spark session"),
    "groupsdk/history/follow/stream.py": ("tests/spark/test_following.py", "needs Spark"),
    "groupsdk/history/follow/update_steps.py": (
        "tests/history/follow/test_updater.py",
        "the steps of each update",
    ),
    "groupsdk/history/follow/bucket_update.py": (
        "tests/history/follow/test_updater.py",
        "every update goes through it",
    ),
    "groupsdk/history/tables/table_files.py": (
        "tests/history/follow/test_updater.py",
        "every update goes through it",
    ),
    "groupsdk/history/explain/timeline/rows.py": (
        "tests/history/explain/timeline/test_group_timeline.py",
        "declarations",
    ),
    "groupsdk/history/job.py": ("tests/spark/test_job.py", "needs a Spark session"),
    "groupsdk/history/tables/table_formats.py": (
        "tests/spark/test_table_formats.py",
        "needs Spark",
    ),
    "groupsdk/history/pipeline.py": ("tests/history/test_local.py", "each run goes through it"),
    "groupsdk/history/tables/stages.py": ("tests/history/read/test_reading.py", "declarations"),
    "groupsdk/history/tables/stage_tables.py": (
        "tests/history/test_local.py",
        "each run reads its stages",
    ),
    "groupsdk/history/sources/spark_broker_log.py": ("tests/spark/test_sources.py", "needs Spark"),
    "groupsdk/history/sources/spark_connector.py": ("tests/spark/test_sources.py", "needs Spark"),
    "groupsdk/history/sources/spark_segments.py": ("tests/spark/test_landing.py", "needs Spark"),
    "groupsdk/history/sources/spark_tables.py": ("tests/spark/test_landing.py", "needs Spark"),
    "groupsdk/history/spark_daemon.py": ("tests/spark/test_session.py", "needs Spark"),
    "groupsdk/history/sources/spark_topic.py": ("tests/spark/test_live.py", "needs a broker"),
    "groupsdk/history/tables/spark_lag.py": (
        "tests/spark/test_lag.py",
        "with Spark",
    ),
    "groupsdk/shards/keywords.py": (
        "tests/settings/test_keywords.py",
        "made with those of the member",
    ),
    "groupsdk/shards/aio.py": ("tests/shards/test_worker.py", "each test there runs with both"),
    "groupsdk/shards/membership.py": ("tests/shards/test_worker.py", "driven there"),
    "groupsdk/shards/leader.py": ("tests/shards/test_worker.py", "driven there"),
    "groupsdk/shards/work.py": ("tests/shards/test_placement.py", "each test there has one"),
    "groupsdk/shards/steps.py": ("tests/shards/test_worker.py", "declarations"),
    "groupsdk/shards/callbacks.py": ("tests/shards/test_worker.py", "declarations"),
    "groupsdk/member/classic/membership.py": ("tests/member/test_machine.py", "driven there"),
    "groupsdk/testing": ("tests/kafka/test_local_kafka.py", "all of it starts one broker"),
    "groupsdk/testing/simulation": (
        "tests/simulation/test_simulation.py",
        "every run goes through all of it",
    ),
    "groupsdk/verdict/observation.py": ("tests/verdict/test_judge.py", "declarations"),
    "groupsdk/verdict/log_reader.py": ("tests/verdict/test_collecting.py", "reads real logs"),
    "groupsdk/wire/coordinator_records/share_group.py": (
        "tests/wire/coordinator_records/test_kafka_records.py",
        "declarations, compared with Kafka's own classes byte for byte",
    ),
    "groupsdk/wire/coordinator_records/streams_group.py": (
        "tests/wire/coordinator_records/test_kafka_records.py",
        "declarations, compared with Kafka's own classes byte for byte",
    ),
    "groupsdk/wire/messages": (
        "tests/conformance/test_kafka_bytes.py",
        "declarations, compared with Kafka's own classes byte for byte",
    ),
}

# The most lines of Python that each part of the library may have, and the tests: what a reader has to hold.
# A part that needs more raises its number in a commit that says why.
# Shards, the verdict, the lakehouse, the live pages and the commands for operators are some 15,000 of these lines; of the rest,
# searches for what stands twice, or only tests use, found less than one in a hundred at the last reading.
BUDGETS: dict[tuple[str, ...], int] = {
    ("groupsdk/*.py", "groupsdk/settings", "groupsdk/assignment/*.py"): 4_675,
    ("groupsdk/wire",): 10_675,
    ("groupsdk/member",): 5_515,
    ("groupsdk/drivers",): 5_595,
    ("groupsdk/consumer",): 6_055,
    ("groupsdk/connect",): 10_575,
    ("assignors", "groupsdk/assignment/check"): 8_745,
    ("groupsdk/broker",): 28_700,
    # objectives, standstills and the groups' state at the end of the log; a lakehouse, by both engines, with the log itself
    ("groupsdk/history",): 18_260,
    (
        "groupsdk/admin",
        "groupsdk/cli",
        "groupsdk/web",
        "groupsdk/telemetry",
        "groupsdk/http",
    ): 12_785,
    ("groupsdk/testing",): 4_865,
    ("groupsdk/election",): 440,
    ("groupsdk/shards",): 5_010,
    ("groupsdk/verdict",): 2_605,
    ("tests",): 151_290,
}
MAX_MODULES = 589
LONG_MODULE = 800
"""A module over that is named in a warning: it may hold two ideas."""


def modules() -> list[Path]:
    """Lists every module of both packages, relative to the project's root."""
    return [
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


def mirrors(module: Path) -> list[Path]:
    """Lists where a module's tests may stand: its own folder under tests/, or one further up.

    `groupsdk/wire/api.py` is mirrored by `tests/wire/test_api.py`. The tests of a small sub-package may
    share the folder of the package around it. `assignors` keeps its name, `groupsdk` is the root.
    """
    folder = module.parent
    if folder.parts[0] == "groupsdk":
        folder = folder.relative_to("groupsdk")
    folders = [folder, *folder.parents]
    if len(folders) > 1:
        # a module in a package may not hide behind a test of the same name at the top
        folders.remove(Path())
    return [Path("tests") / each / f"test_{module.stem}.py" for each in folders]


def is_tested_elsewhere(module: Path) -> bool:
    """Says whether a module, or a folder around it, is on the list of exceptions."""
    return any(path.as_posix() in TESTED_ELSEWHERE for path in (module, *module.parents))


def imported_by_tests(folder: Path) -> set[str]:
    """Names the modules that the test modules directly in `folder` import, with dots."""
    names: set[str] = set()
    for test in sorted((ROOT / folder).glob("test_*.py")):
        for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
    return names


def is_covered_by_its_package(module: Path) -> bool:
    """Says whether a test module in the folder of the module's package imports it."""
    name = ".".join(module.with_suffix("").parts)
    return any(name in imported_by_tests(path.parent) for path in mirrors(module))


def test_the_layout_is_looked_at() -> None:
    # The other tests here would pass on an empty list.
    assert Path("groupsdk/errors.py") in modules()
    assert mirrors(Path("groupsdk/errors.py")) == [Path("tests/test_errors.py")]
    assert mirrors(Path("groupsdk/drivers/engine/sasl.py")) == [
        Path("tests/drivers/engine/test_sasl.py"),
        Path("tests/drivers/test_sasl.py"),
    ]
    assert mirrors(Path("assignors/items.py")) == [Path("tests/assignors/test_items.py")]


def test_every_module_has_tests_of_its_own_or_of_its_package() -> None:
    missing = []
    claimed: defaultdict[Path, list[str]] = defaultdict(list)
    for module in modules():
        if module.name == "__init__.py" or is_tested_elsewhere(module):
            continue
        found = [path for path in mirrors(module) if (ROOT / path).is_file()]
        if found:
            claimed[found[0]].append(module.as_posix())
        elif not is_covered_by_its_package(module):
            missing.append(f"{module.as_posix()}: write {mirrors(module)[0].as_posix()}")

    assert not missing, "modules without tests of their own:\n" + "\n".join(missing)
    shared = {path.as_posix(): names for path, names in claimed.items() if len(names) > 1}
    assert not shared, f"one test module cannot mirror several modules: {shared}"


def test_the_exceptions_are_still_true() -> None:
    for place, (test, reason) in TESTED_ELSEWHERE.items():
        assert reason
        assert (ROOT / test).is_file(), f"{test}, named for {place}, is not there"
        excepted = [m for m in modules() if Path(place) in (m, *m.parents)]
        assert excepted, f"{place} is gone: take it off the list"
        for module in excepted:
            mirrored = [path.as_posix() for path in mirrors(module) if (ROOT / path).is_file()]
            assert not mirrored, (
                f"{module.as_posix()} has {mirrored} now: take {place} off the list"
            )


def test_a_package_without_code_needs_no_test() -> None:
    # What makes it right to leave every __init__.py out above.
    code = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    with_code = [
        module.as_posix()
        for module in modules()
        if module.name == "__init__.py"
        # `__getattr__` is how a package puts off an import until its name is used
        and any(
            isinstance(node, code) and node.name not in {"__getattr__", "__dir__"}
            for node in ast.parse((ROOT / module).read_text(encoding="utf-8")).body
        )
    ]
    assert not with_code, f"code belongs in a module that a test mirrors: {with_code}"


def test_the_top_level_holds_what_a_reader_expects_there() -> None:
    """What a tool leaves behind, such as a wheel that pip downloaded, is not committed with the rest."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    names = {line.split("/")[0] for line in tracked.splitlines()}
    assert {name for name in names if not name.startswith(".")} == TOP_LEVEL


def test_every_folder_with_modules_is_a_package() -> None:
    # Without an __init__.py the import contracts would not look into it, and say nothing.
    folders = {folder for module in modules() for folder in module.parents if folder.parts}
    bare = sorted(f.as_posix() for f in folders if not (ROOT / f / "__init__.py").is_file())
    assert not bare, f"add __init__.py to {bare}"


def test_every_package_is_named_where_a_reader_looks_for_it() -> None:
    """In the layers of design.md, with its sub-packages in CONTRIBUTING's tree or in the file map of design.md."""
    design = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    contributing = (ROOT / "docs/CONTRIBUTING.md").read_text(encoding="utf-8")
    layers = design.partition("## Layers")[2].partition("\n## ")[0]
    tree = contributing.partition("```text")[2].partition("```")[0]
    packages = [module.parent for module in modules() if module.name == "__init__.py"]
    rooms = [each for each in packages if each.parts[0] == "assignors" or len(each.parts) > 1]
    assert len(rooms) > 40
    unnamed = [
        each.as_posix()
        for each in rooms
        if len(each.parts) == 1 + (each.parts[0] == "groupsdk")
        and not (re.search(rf"`(groupsdk\.)?{each.name}\b", layers) and f"{each.name}/" in tree)
    ]
    unnamed += [
        each.as_posix()
        for each in rooms
        if len(each.parts) == 2 + (each.parts[0] == "groupsdk")
        and not re.search(rf"\b{each.name}/", tree + design)
    ]
    assert not unnamed, f"name them in docs/design.md and docs/CONTRIBUTING.md: {unnamed}"


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def room(place: str) -> list[Path]:
    """List the modules that a place of `BUDGETS` names: a folder with all below it, or a pattern."""
    return sorted(ROOT.glob(place) if "*" in place else (ROOT / place).rglob("*.py"))


def test_each_part_keeps_within_its_budget() -> None:
    spent = {
        places: sum(lines_of(p) for place in places for p in room(place)) for places in BUDGETS
    }
    over = {" ".join(p): (lines, BUDGETS[p]) for p, lines in spent.items() if lines > BUDGETS[p]}
    assert not over, (
        f"say less, or raise the budget and say why: lines, and how many may be: {over}"
    )


def test_each_module_is_in_one_budget() -> None:
    counted = [
        path.relative_to(ROOT) for places in BUDGETS for each in places for path in room(each)
    ]
    assert sorted(path for path in counted if path.parts[0] != "tests") == sorted(modules())


def test_the_modules_are_few() -> None:
    assert len(modules()) <= MAX_MODULES


def test_a_long_module_is_named_in_a_warning() -> None:
    long = [path.as_posix() for path in modules() if lines_of(ROOT / path) > LONG_MODULE]
    if long:
        warnings.filterwarnings("default", category=UserWarning)
        warnings.warn(f"over {LONG_MODULE} lines, perhaps two ideas: {long}", stacklevel=1)


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        module.as_posix()
        for module in modules()
        if not ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8")))
    ]
    assert not silent, f"modules that do not say what they are for: {silent}"


def test_docstrings_say_what_they_raise_in_sentences() -> None:
    """`Raises XError if ...`, or a section `Raises:`; an error with a colon in mid-sentence is hard to read."""
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    fragments = [
        f"{path}:{node.lineno}: {fragment}"
        for path in modules()
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, documented)
        for fragment in re.findall(r"[.;,)] [A-Z]\w+Error: .*", ast.get_docstring(node) or "")
    ]
    assert not fragments, fragments


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "__init__.py").is_file()
    assert (ROOT / package / "py.typed").is_file()


def test_a_logger_has_one_name_and_its_lines_begin_alike() -> None:
    """Tools that read a log find group, member and generation in one form: see `groupsdk.telemetry.json_log`."""
    names, others = set(), []
    for path in modules():
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and node.value is not None
                and ast.unparse(node.value) == "logging.getLogger(__name__)"
            ):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                names.add(ast.unparse(target))
            elif (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).startswith("logger.")
                and isinstance(first := next(iter(node.args), None), ast.Constant)
                and isinstance(first.value, str)
                and re.match(r"\[?group[ :]", first.value)
            ):
                others.append(f"{path}:{node.lineno}: {first.value}")
    assert names == {"logger"}
    assert others == []
