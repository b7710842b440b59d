"""Runs the poller of PostgreSQL tables on a real server: out of order, over restarts, kills and lost connections."""

import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from examples.postgres_poller import PostgresPoller, app
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect import ConnectorConfigError, ConnectWorker
from tests.connect.workers import eventually
from tests.examples.crew import Crew
from tests.support.postgres import LocalPostgres


POLICY = {"task.restart.backoff.ms": 20, "task.restart.backoff.max.ms": 200}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    """A real server."""
    with LocalPostgres() as running:
        yield running


@pytest.fixture
def database(server: LocalPostgres) -> Iterator[psycopg.Connection]:
    """A connection to it, and two empty tables."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS orders, refunds")
        for table in ("orders", "refunds"):
            connection.execute(
                f"CREATE TABLE {table} (id bigserial PRIMARY KEY, what text, at timestamptz DEFAULT now())"
            )
        yield connection


def config(server: LocalPostgres, out: Path) -> dict[str, str]:
    return {
        "connector.class": "PostgresPoller",
        "dsn": server.dsn,
        "tables": "orders, public.refunds",
        "column": "id",
        "every": "0.02",
        "into": str(out),
    }


def start(server: LocalPostgres, directory: Path) -> ConnectWorker:
    worker = app.start_standalone(directory / "store.json", POLICY)
    eventually(lambda: worker.is_leader)
    worker.admin.put_connector("shop", config(server, directory / "out")).result(60)
    return worker


def rows(path: Path, task: str = "orders") -> list[dict[str, Any]]:
    """The rows of one table that were copied."""
    # without a line that is being written
    lines = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
    return [each["row"] for each in map(json.loads, lines) if each["task"] == task]


def more_than(path: Path, least: int) -> bool:
    """Whether more rows were copied than so many."""
    return len(rows(path)) > least


def add(database: psycopg.Connection, *what: str, table: str = "orders") -> None:
    """Insert rows."""
    for each in what:
        database.execute(f"INSERT INTO {table} (what) VALUES (%s)", (each,))


def test_new_rows_are_copied_once_over_restarts(
    server: LocalPostgres, database: psycopg.Connection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    add(database, "one", "two")
    add(database, "back", table="refunds")
    worker = start(server, tmp_path)
    eventually(lambda: [each["what"] for each in rows(out)] == ["one", "two"])
    eventually(lambda: [each["what"] for each in rows(out, "public.refunds")] == ["back"])
    assert worker.stop(60)
    # more than one batch
    database.execute("INSERT INTO orders (what) SELECT 'more' FROM generate_series(1, 2500)")
    again = start(server, tmp_path)
    eventually(lambda: len(rows(out)) >= 2_502)
    add(database, "last")
    eventually(lambda: rows(out)[-1]["what"] == "last")
    assert [each["id"] for each in rows(out)] == list(range(1, 2_504))
    assert again.stop(60)


def test_a_row_that_is_committed_after_greater_numbers_is_not_passed_over(
    server: LocalPostgres, database: psycopg.Connection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    add(database, "before")
    worker = start(server, tmp_path)
    eventually(lambda: len(rows(out)) == 1)
    with psycopg.connect(server.dsn) as slow:
        add(slow, "slow")  # has number 2, and is not committed
        add(database, "quick")
        add(database, "other", table="refunds")
        # time enough, were it not to wait: the other table has been copied meanwhile
        eventually(lambda: len(rows(out, "public.refunds")) == 1)
        assert len(rows(out)) == 1
        slow.commit()
    eventually(lambda: [each["what"] for each in rows(out)] == ["before", "slow", "quick"])
    assert worker.stop(60)


def test_postgres_poller_resumes_after_the_server_was_gone(
    server: LocalPostgres, database: psycopg.Connection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    add(database, "one")
    worker = start(server, tmp_path)
    eventually(lambda: len(rows(out)) == 1)
    server.crash()
    eventually(
        lambda: "RESTARTING" in {each.state.value for each in worker.admin.statuses().values()}
    )
    server.start()
    with psycopg.connect(server.dsn, autocommit=True) as anew:
        add(anew, "two")
    eventually(lambda: [each["what"] for each in rows(out)] == ["one", "two"])
    assert worker.stop(60)


@pytest.mark.timeout(300)
def test_workers_that_are_killed_lose_no_row(
    server: LocalPostgres, database: psycopg.Connection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with (
        EmbeddedBroker() as broker,
        Crew("examples.postgres_poller:app", "shop", broker.bootstrap_servers) as crew,
    ):
        crew.start()
        crew.start()
        crew.put("shop", config(server, out))
        for kill in range(3):
            owner = crew.owner("shop")
            database.execute("INSERT INTO orders (what) SELECT 'x' FROM generate_series(1, 3000)")
            eventually(partial(more_than, out, 3_000 * kill), crew.said)
            crew.send(owner, signal.SIGKILL)
            add(database, f"after kill {kill}")
            crew.start()
        eventually(lambda: len({each["id"] for each in rows(out)}) == 9_003, crew.said, 60)
    # what came twice came under two tokens, and each owner read in order
    of_token: dict[int, list[int]] = {}
    for line in map(json.loads, out.read_text().splitlines()):
        of_token.setdefault(line["token"], []).append(line["row"]["id"])
    assert len(of_token) >= 3
    for numbers in of_token.values():
        assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_bad_setting_of_the_postgres_poller_is_refused_by_its_name(
    server: LocalPostgres, tmp_path: Path
) -> None:
    wrong = config(server, tmp_path)
    del wrong["column"]
    with pytest.raises(ConnectorConfigError, match="column: is missing"):
        PostgresPoller.validate(wrong)
    with pytest.raises(ConnectorConfigError, match="every: must be seconds"):
        PostgresPoller.validate(config(server, tmp_path) | {"every": "soon"})
