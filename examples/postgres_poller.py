"""Copies new rows of PostgreSQL tables: a task for each table, which keeps how far it has come.

    pip install groupsdk[examples]
    python -m groupsdk worker examples.postgres_poller:app --group demo --bootstrap-servers localhost:9092 --rest :8083

    curl -X PUT localhost:8083/connectors/shop/config -H 'Content-Type: application/json' \\
         -d '{"connector.class": "PostgresPoller", "dsn": "host=db dbname=shop user=reader",
              "tables": "orders,sales.refunds", "column": "id", "into": "/tmp/rows"}'

Leave the password out of `dsn`, which all workers' configurations hold: PGPASSFILE and PGPASSWORD are read.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from typing_extensions import override

from examples.connectors import seconds, write
from groupsdk.connect import Connector, Task, TaskContext, Worker


Database = psycopg.Connection[dict[str, Any]]

app = Worker()
_BATCH = 1_000
_WRITERS = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = %s::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@app.connector
class PostgresPoller(Connector):
    """Each row once and in the order of `column`, which counts up: an identity or serial column.

    Numbers are drawn before a transaction commits, so rows become visible out of order. No row is passed over:
    up to the greatest number that can be seen, the poller waits for all who were writing when it looked.
    A batch of rows may come twice after a crash, with a greater token.
    """

    required = ("dsn", "tables", "column", "into")

    @override
    @classmethod
    def validate(cls, config: Mapping[str, str]) -> None:
        super().validate(config)
        seconds(config, "every", 5.0)

    @override
    def plan(self) -> list[Task]:
        return [Task(name.strip()) for name in self.config["tables"].split(",")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        at = (context.state or {"at": None})["at"]
        every = seconds(self.config, "every", 5.0)
        # what the network or the server does wrong is raised: the worker tries again, later each time
        with Database.connect(
            self.config["dsn"], autocommit=True, row_factory=dict_row
        ) as database:
            while not context.stop.wait(every):
                at = self._copy(database, task, context, at)

    def _copy(
        self, database: Database, task: Task, context: TaskContext, at: int | None
    ) -> int | None:
        """Copy what there is by now, and return the last number."""
        table, column = sql.Identifier(*task.id.split(".")), sql.Identifier(self.config["column"])
        name = table.as_string(database)
        top = _one(database, sql.SQL("SELECT max({}) AS top FROM {}").format(column, table))["top"]
        writers = _writers(database, name)
        while writers & _writers(database, name):
            if context.stop.wait(0.02):
                return at
        # two numbers and not a condition that may be absent, so that the index of the column is used
        query = sql.SQL(
            "SELECT * FROM {table} WHERE {column} > %s AND {column} <= %s ORDER BY {column} LIMIT %s"
        ).format(table=table, column=column)
        while top is not None and (at is None or at < top) and not context.stop.is_set():
            below = -(2**63) if at is None else at
            rows = database.execute(query, (below, top, _BATCH)).fetchall()
            for row in rows:
                write(self.config, task, context, row=row)
            at = rows[-1][self.config["column"]] if rows else top
            context.commit({"at": at})
        return at


def _writers(database: Database, table: str) -> set[str]:
    """Who has a lock that writers take before they draw a number."""
    return {row["virtualtransaction"] for row in database.execute(_WRITERS, (table,))}


def _one(database: Database, query: sql.Composed) -> dict[str, Any]:
    row = database.execute(query).fetchone()
    assert row is not None  # an aggregate always has one
    return row
