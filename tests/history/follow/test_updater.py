"""Tables that are kept up to date, held against those that one run over the same log makes."""

import gzip
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyarrow import fs, parquet
from pytest_mock import MockerFixture

from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.follow import updater as module
from groupsdk.history.follow.running_totals import LateTransactionError
from groupsdk.history.follow.updater import Updater
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.broker_log_lines import BrokerLogTail, read_log_files
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.lease import LOCK
from groupsdk.history.tables.publishing import FOLLOWED
from groupsdk.history.tables.stage_tables import RUN_TABLES
from tests.history.expected_tables import LOGS, digests, expected
from tests.history.follow.crashing import CrashError, CrashingHandler
from tests.history.follow.log_parts import RawTask, follow, land, pieces, raw_of
from tests.history.sample import BROKER_LOG
from tests.support.cases import each_case


FEW = Options(assignors=("sticky",))


def run_once(raw: Any, out: Path, options: Options = FEW) -> dict[str, list[Any]]:
    """Make the tables of raw records in one run of the local engine."""
    local.run([RawTask(raw)], str(out), options)
    return digests(out)


def test_close_waits_for_the_update_that_another_thread_carries_out(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    # when Spark's JVM has died its update goes on, while the main thread is already at its end
    updater = Updater(str(tmp_path / "out"), "log", FEW, buckets=2)
    updates: list[int] = []
    reading, closing = Event(), Event()
    mocker.patch.object(
        updater._lease, "release", side_effect=lambda: updates.append(updater.state.update)
    )

    def read(_: object) -> None:
        reading.set()
        assert closing.wait(60)

    with ThreadPoolExecutor() as pool:
        update = pool.submit(updater.update, read)
        assert reading.wait(60)
        close = pool.submit(updater.close)
        closing.set()
        assert update.result()
        close.result()
    assert updates == [1]


# damaged places of segment files are no records, so an update is not told of them
@each_case("name", [each for each in LOGS if each not in ("bad input", "damaged")])
def test_a_log_in_pieces_makes_the_tables_of_one_run(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    raw = raw_of(LOGS[name](root))
    follow(Updater(str(root / "out"), "log", buckets=2), pieces(raw, 5, 7))
    assert digests(root / "out") == expected()[name]


@each_case("name", ["bad input", "transactions", "protocols"])
def test_each_update_makes_the_tables_of_what_was_read_so_far(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    parts = pieces(raw_of(LOGS[name](root)), 5, 1)
    out = root / "out"
    for number in range(len(parts)):
        # each by a process of its own
        follow(Updater(str(out), "log", FEW, buckets=2), parts[: number + 1])
        before = run_once(pa.concat_tables(parts[: number + 1]), root / f"once-{number}")
        assert digests(out) == before, number


@each_case("seed", range(3))
def test_updates_with_broker_logs_make_the_tables_of_one_run(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    root = tmp_path / str(seed)
    parts = pieces(raw_of(LOGS["sample"](root)), 3, seed)
    lines = gzip.decompress(BROKER_LOG.read_bytes()).splitlines(keepends=True)
    log, out = root / "server.log", root / "out"
    log.write_bytes(b"".join(lines[:100]))
    written = 100
    updater = Updater(str(out), "log", FEW, buckets=2, broker_logs=BrokerLogTail(str(log)).read)
    for number in range(len(parts)):
        if number and random.random() < 0.5:
            # another process, which reads the log from its beginning
            updater.close()
            updater = Updater(str(out), "log", FEW, broker_logs=BrokerLogTail(str(log)).read)
        # some lines come before their records, others long after them
        upto = len(lines) * (number + random.choice([0, 1, 2])) // len(parts)
        with log.open("ab") as file:
            file.write(b"".join(lines[written:upto]))
        written = max(written, upto)
        updater.update(partial(land, parts[number]), batch=number)
        so_far = RawTask(pa.concat_tables(parts[: number + 1]))
        once = root / f"once-{number}"
        local.run([so_far], str(once), FEW, broker_logs=read_log_files(str(log)))
        assert digests(out) == digests(once), number
    updater.close()


def test_lines_of_brokers_that_come_after_all_records_count(tmp_path: Path) -> None:
    raw = raw_of(LOGS["sample"](tmp_path / "log"))
    log, out, once = tmp_path / "server.log", tmp_path / "out", tmp_path / "once"
    log.touch()
    updater = Updater(str(out), "log", FEW, broker_logs=BrokerLogTail(str(log)).read)
    updater.update(partial(land, raw), batch=0)
    log.write_bytes(gzip.decompress(BROKER_LOG.read_bytes()))
    updater.update(partial(land, raw.slice(0, 0)), batch=1)
    updater.close()
    local.run([RawTask(raw)], str(once), FEW, broker_logs=read_log_files(str(BROKER_LOG)))
    assert digests(out) == digests(once)


def test_pieces_that_come_late_or_twice_change_nothing_in_the_end(tmp_path: Path) -> None:
    raw = raw_of(LOGS["protocols"](tmp_path / "log"))
    # the records of transactions are not among those that may come late
    raw = raw.filter(pc.invert(pc.or_(raw.column("transactional"), raw.column("control"))))
    parts = pieces(raw, 6, 3)
    Random(5).shuffle(parts)
    follow(Updater(str(tmp_path / "out"), "log", FEW, buckets=2), parts)
    assert digests(tmp_path / "out") == run_once(raw, tmp_path / "once")
    # group records that stand in a log twice count once
    own = parts[0].filter(pc.equal(pc.binary_slice(parts[0].column("key"), 0, 2), b"\0\2"))
    assert own.num_rows
    again = Updater(str(tmp_path / "out"), "log", FEW)
    again.update(partial(land, own), batch=len(parts))
    twice = run_once(pa.concat_tables([raw, own]), tmp_path / "twice")
    assert digests(tmp_path / "out") == twice


def test_a_transaction_that_comes_late_is_said(tmp_path: Path) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    late = raw.filter(raw.column("transactional"))
    updater = Updater(str(tmp_path / "out"), "log", FEW)
    updater.update(partial(land, late.slice(2)), batch=0)
    before = digests(tmp_path / "out")
    with pytest.raises(LateTransactionError, match="made again"):
        updater.update(partial(land, late.slice(0, 2)), batch=1)
    assert digests(tmp_path / "out") == before
    updater.start_over()
    follow(updater, [raw])
    assert digests(tmp_path / "out") == run_once(raw, tmp_path / "once")


@each_case("first", [0, 3, 5])
def test_a_crash_before_any_change_of_a_file_changes_nothing(
    first: int, tmp_path: Path, mocker: MockerFixture
) -> None:
    root = tmp_path / str(first)
    parts = pieces(raw_of(LOGS["transactions"](root / "log")), 3, 2)
    once = run_once(pa.concat_tables(parts), root / "once")
    places = [
        mocker.patch(f"groupsdk.history.{each}.file_system")
        for each in ("follow.updater", "follow.bucket_update", "tables.table_files")
    ]
    out = root / "out"
    # each start gets some way further, or begins its update again
    changes, starts = 1 + first, 0
    while True:
        handler = CrashingHandler(changes)
        system = fs.PyFileSystem(handler)
        for each in places:
            each.side_effect = lambda path, system=system: (system, path)
        try:
            follow(Updater(str(out), "log", FEW, buckets=2), parts)
        except CrashError:
            changes, starts = changes + 7, starts + 1
            continue
        break
    assert starts > 10
    assert digests(out) == once
    left = {each.name for each in out.iterdir()}
    assert left == {*RUN_TABLES, FOLLOWED, LOCK}
    assert not [each for each in (out / FOLLOWED).iterdir() if "update" in each.name]


def test_other_options_and_other_code_make_all_tables_again_from_what_is_kept(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    raw = raw_of(LOGS["protocols"](tmp_path / "log"))
    parts = pieces(raw, 4, 1)
    out = tmp_path / "out"
    follow(Updater(str(out), "log", FEW), parts[:-1])
    other = Options(assignors=("range",), storm_generations=2, session_timeout_ms=9_000)
    changed = Updater(str(out), "log", other)
    states = [changed.is_current]
    follow(changed, parts)
    states.append(changed.is_current)
    changed.close()
    assert states == [False, True]
    assert digests(out) == run_once(raw, tmp_path / "once", other)
    mocker.patch.object(module, "fingerprint", return_value="later")
    later = Updater(str(out), "log", other)
    states = [later.is_current]
    later.update(lambda _: None)
    states.append(later.is_current)
    assert states == [False, True]
    assert digests(out) == run_once(raw, tmp_path / "once", other)


def test_names_that_are_learned_late_stand_in_all_tables(tmp_path: Path) -> None:
    raw = raw_of(LOGS["sample"](tmp_path / "log"))
    names: list[tuple[str, str]] = []
    out = tmp_path / "out"
    updater = Updater(str(out), "log", FEW, names=lambda: names)
    parts = pieces(raw, 3, 8)
    follow(updater, parts[:2])
    names.append(("CaotL4xPQ2OKVZ8FhT8vWQ", "events"))
    follow(updater, parts)
    local.run([RawTask(raw)], str(tmp_path / "once"), FEW, names=names)
    assert digests(out) == digests(tmp_path / "once")


def test_many_updates_leave_few_files(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0, batch_records=1) as log:
        for number in range(40):
            seats = {f"m{number}": Seat("c", {"t": [0, 1]})}
            log.append(1_000 * number, generation("g", number + 1, seats))
            log.append(1_000 * number + 500, commit("g", "t", 0, number, 1_000 * number + 500))
    raw = raw_of(tmp_path / "log")
    out = tmp_path / "out"
    follow(Updater(str(out), "log", FEW, buckets=2), pieces(raw, 40, 1))
    assert digests(out) == run_once(raw, tmp_path / "once")
    for name in RUN_TABLES:
        assert len(list((out / name).rglob("*.parquet"))) < 20, name


def test_a_run_and_what_follows_a_log_take_the_place_of_each_other(tmp_path: Path) -> None:
    segments = LOGS["transactions"](tmp_path / "log")
    raw = raw_of(segments)
    out = tmp_path / "out"
    local.run(segment_tasks(str(segments)), str(out), FEW)
    once = digests(out)
    follow(Updater(str(out), "log", FEW), pieces(raw, 3, 1)[:1])
    assert digests(out) != once
    local.run(segment_tasks(str(segments)), str(out), FEW)
    assert not (out / FOLLOWED).exists()
    follow(Updater(str(out), "log", FEW), pieces(raw, 3, 1))
    assert digests(out) == once


def test_every_file_of_a_table_names_the_cluster_of_its_rows(tmp_path: Path) -> None:
    raw = raw_of(LOGS["sample"](tmp_path / "log"))
    named = replace(FEW, cluster_id="prod-eu")
    local.run([RawTask(raw)], str(tmp_path / "run"), named)
    updater = Updater(str(tmp_path / "followed"), "log", named, buckets=2)
    # so many that files are merged
    follow(updater, pieces(raw, 20, 1))
    for out in ("run", "followed"):
        for name in RUN_TABLES:
            for file in (tmp_path / out / name).rglob("*.parquet"):
                found = parquet.read_table(file, partitioning=None)
                assert found.schema.names[0] == "cluster_id", file
                assert set(found.column("cluster_id").to_pylist()) <= {"prod-eu"}, file
                assert found.num_rows or "empty" in file.name, file
    updater.close()
    with pytest.raises(ConfigError, match="are of the cluster 'prod-eu', not of 'unknown'"):
        Updater(str(tmp_path / "followed"), "log", FEW)


def test_nothing_makes_tables_with_columns(tmp_path: Path) -> None:
    Updater(str(tmp_path), "log").update(lambda _: None)
    for name in RUN_TABLES:
        assert ds.dataset(str(tmp_path / name)).schema.names


def test_unsupported_options_of_the_updater_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such assignor"):
        Updater(str(tmp_path), "log", Options(assignors=("no such assignor",)))
    with pytest.raises(ConfigError, match="Parquet or Delta, not 'iceberg'"):
        Updater(str(tmp_path), "log", replace(FEW, format="iceberg"))
    with pytest.raises(ConfigError, match="at least 2, not 1"):
        Updater(str(tmp_path), "log", buckets=1)
    Updater(str(tmp_path), "one", FEW)
    with pytest.raises(ConfigError, match="are of one, not of two"):
        Updater(str(tmp_path), "two", FEW)
    assert Updater(str(tmp_path), "two", FEW, replace_other=True).state.source == "two"
