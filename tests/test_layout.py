"""Holds the layout: each module is one idea whole, documented, tested, and of 80 to 600 lines."""

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("groupsdk", "assignors")
MAX_LINES = 600
MIN_LINES = 80
"""A module under that is a fragment that a reader has to fetch, unless there is a reason to have it alone."""

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
    "groupsdk/broker/consumer_groups": (
        "tests/broker/consumer_groups/test_golden_sequences.py",
        "each request goes through most of it",
    ),
    "groupsdk/broker/server/handlers/alter_configs.py": (
        "tests/broker/server/handlers/test_configs.py",
        "what is changed is seen by describing it",
    ),
    "groupsdk/connect/__main__.py": ("tests/cli/test_worker.py", "the command as a module"),
    "groupsdk/consumer/settings.py": ("tests/test_settings.py", "made with those of the member"),
    "groupsdk/history/__main__.py": ("tests/cli/test_history.py", "calls the command"),
    "groupsdk/history/alert_stream.py": (
        "tests/spark/test_alert_stream.py",
        "needs a Spark session",
    ),
    "groupsdk/history/archive.py": ("tests/spark/test_live.py", "needs a Spark session"),
    "groupsdk/cli/history_following.py": (
        "tests/spark/test_following.py",
        "needs a Spark session and a broker",
    ),
    "groupsdk/history/following/stream.py": ("tests/spark/test_following.py", "needs Spark"),
    "groupsdk/history/following/update_steps.py": (
        "tests/history/following/test_updater.py",
        "the steps of each update",
    ),
    "groupsdk/history/following/bucket_update.py": (
        "tests/history/following/test_updater.py",
        "every update goes through it",
    ),
    "groupsdk/history/following/table_files.py": (
        "tests/history/following/test_updater.py",
        "every update goes through it",
    ),
    "groupsdk/history/groups/row_types.py": (
        "tests/history/groups/test_timeline.py",
        "declarations",
    ),
    "groupsdk/history/job.py": ("tests/spark/test_job.py", "needs a Spark session"),
    "groupsdk/history/table_marks.py": ("tests/spark/test_table_formats.py", "needs Spark"),
    "groupsdk/history/table_formats.py": ("tests/spark/test_table_formats.py", "needs Spark"),
    "groupsdk/history/pipeline.py": ("tests/history/test_local.py", "each run goes through it"),
    "groupsdk/history/stage_tables.py": (
        "tests/history/test_local.py",
        "each run reads its stages",
    ),
    "groupsdk/history/sources/spark_broker_log.py": ("tests/spark/test_sources.py", "needs Spark"),
    "groupsdk/history/sources/spark_connector.py": ("tests/spark/test_sources.py", "needs Spark"),
    "groupsdk/history/sources/spark_segments.py": ("tests/spark/test_landing.py", "needs Spark"),
    "groupsdk/history/sources/spark_topic.py": ("tests/spark/test_live.py", "needs a broker"),
    "groupsdk/history/tables": ("tests/spark/test_lag.py", "steps from DataFrame to DataFrame"),
    "groupsdk/testing": ("tests/kafka/test_local_kafka.py", "all of it starts one broker"),
    "groupsdk/testing/simulation": (
        "tests/simulation/test_simulation.py",
        "every run goes through all of it",
    ),
    "groupsdk/wire/messages": (
        "tests/conformance/test_kafka_bytes.py",
        "declarations, compared with Kafka's own classes byte for byte",
    ),
}

# Modules under MIN_LINES, or whole folders of them, each with the reason why they stand alone.
SHORT: dict[str, str] = {
    "assignors/items.py": "two functions for groups of a custom type, which know no partitions",
    "assignors/roundrobin.py": "one of Kafka's assignors, as the others beside it",
    "groupsdk/assignor_check/steps.py": "a limit that knows nothing of assignors",
    "groupsdk/broker/classic_groups/config.py": "the settings of one coordinator, with their bounds",
    "groupsdk/broker/consumer_groups/member_removal.py": "above conversion.py and group_updater.py, of which it needs both",
    "groupsdk/broker/inspection.py": "imported only where somebody looks in",
    "groupsdk/broker/log/retention.py": "Kafka's retention.ms and retention.bytes, whole",
    "groupsdk/broker/server/handlers": "one module for each family of Kafka's APIs",
    "groupsdk/broker/server/tls.py": "a leaf: imported only by listeners with TLS",
    "groupsdk/broker/transactions/config.py": "the settings of one coordinator, with their bounds",
    "groupsdk/consumer/guard.py": "a leaf of the consumer and of its loop that reads",
    "groupsdk/consumer/settings.py": "written by docs/list_settings.py, imported by type checkers",
    "groupsdk/consumer_membership/config.py": "a leaf: the settings of one member, which consumers make without its machine",
    "groupsdk/consumer_membership/subscription.py": "a leaf: what the caller writes and the machine reads",
    "groupsdk/history/archive.py": "with Spark, beside archive_files.py without it; two commands import it",
    "groupsdk/history/groups/incarnations.py": "a leaf: the timeline and the readers of both kinds of protocols share it",
    "groupsdk/history/publishing.py": "a leaf: every run and every update replaces tables by it",
    "groupsdk/history/sources/spark_connector.py": "needs a jar that no other source needs",
    "groupsdk/history/sources/user_files.py": "a leaf: two commands read the same file",
    "groupsdk/history/table_marks.py": "without Spark, which table_formats.py imports",
    "groupsdk/history/tables/shape.py": "a leaf: whatever Spark reads or makes is of a declared shape",
    "groupsdk/lazy_imports.py": "three packages import it before anything else",
    "groupsdk/limits.py": "a leaf: Kafka's limits",
    "groupsdk/printable.py": "a leaf: whatever prints foreign names goes through it",
    "groupsdk/telemetry/prometheus.py": "an optional dependency, as opentelemetry.py beside it",
    "groupsdk/testing/cache.py": "a leaf: whatever is expensive is made once",
    "groupsdk/testing/errors.py": "a leaf: the errors of the package",
    "groupsdk/testing/ports.py": "a leaf: brokers, proxies and workers of the tests reserve ports",
    "groupsdk/testing/pytest_plugin.py": "imported at every start of pytest",
    "groupsdk/testing/simulation/classic_run.py": "the runs of one protocol, as consumer_run.py has those of the other",
    "groupsdk/utf16.py": "a leaf: Java's order of strings",
    "groupsdk/version.py": "read by the build",
    "groupsdk/wire/coordinator_records/group_metadata.py": "one kind of group's records, as its neighbours",
    "groupsdk/wire/coordinator_records/json_form.py": "a leaf: the three modules that print records share it",
    "groupsdk/wire/coordinator_records/offsets_log.py": "the whole of one topic, as transaction_log.py",
    "groupsdk/wire/coordinator_records/partitioner.py": "a leaf: Kafka's choice of a partition, by Java's hash",
    "groupsdk/wire/messages": "one module for each API of Kafka's",
    "groupsdk/wire/twin.py": "a leaf: the decoder and the broker's answers make structs with it",
}


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


def test_no_module_is_too_long() -> None:
    lengths = {
        module.as_posix(): len((ROOT / module).read_text(encoding="utf-8").splitlines())
        for module in modules()
    }
    too_long = {module: lines for module, lines in lengths.items() if lines > MAX_LINES}
    assert not too_long, f"split at a noun; {MAX_LINES} lines at most: {too_long}"


def short_modules() -> list[Path]:
    """Lists the modules under `MIN_LINES`, but for what marks a package or a command."""
    return [
        module
        for module in modules()
        if module.name not in ("__init__.py", "__main__.py")
        and len((ROOT / module).read_text(encoding="utf-8").splitlines()) < MIN_LINES
    ]


def test_a_short_module_has_a_reason() -> None:
    fragments = [
        module.as_posix()
        for module in short_modules()
        if not any(path.as_posix() in SHORT for path in (module, *module.parents))
    ]
    assert not fragments, (
        f"merge them with what they belong to, or give the reason in SHORT: {fragments}"
    )


def test_the_reasons_for_short_modules_are_still_true() -> None:
    for place, reason in SHORT.items():
        assert reason
        assert any(Path(place) in (module, *module.parents) for module in short_modules()), (
            f"{place} is gone, or long enough: take it off the list"
        )


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        module.as_posix()
        for module in modules()
        if not ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8")))
    ]
    assert not silent, f"modules that do not say what they are for: {silent}"


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
