"""The steps from a log to its tables, for both engines."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from groupsdk.assignment import AssignorLike
from groupsdk.errors import ConfigError
from groupsdk.history.explain import SIZES
from groupsdk.history.explain.assignor_replay import new_assignor
from groupsdk.history.explain.explaining import STORM_GENERATIONS, STORM_WINDOW_MS, Context
from groupsdk.history.read.whole_log import (
    quality_table,
    session_timeout,
    took_over,
    topic_names,
    topics_table,
)
from groupsdk.history.slo import NEEDED, Objective, budgets, slo_table
from groupsdk.history.standing import latest_ms
from groupsdk.history.tables.lake_changes import Retention
from groupsdk.history.tables.schemas import UNKNOWN_CLUSTER
from groupsdk.history.tables.stage_tables import Staged, sum_of
from groupsdk.history.tables.stages import COVERAGE, TALLY, TOPIC_HINTS


logger = logging.getLogger(__name__)

DEFAULT_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The assignors replayed by default: names of the package `assignors`."""

Progress = Callable[[str, int, int], None]
"""Called before each step with its name, the number of steps done, and their total."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run.

    Attributes:
        assignors: the assignors to replay.
        storm_generations: this many generations within `storm_window_ms` make a storm.
        storm_window_ms: in milliseconds.
        session_timeout_ms: for members whose records do not have it; None: it is learned from the log.
        slos: service level objectives of groups, for the table `slo`.
        format: of the tables: "parquet", "delta", or another one that the Spark session supports ("iceberg").
        cluster_id: the cluster of the log, for the column `cluster_id` of every table.
        retention: older rows are not kept in Delta tables.
    """

    assignors: Sequence[AssignorLike] = DEFAULT_ASSIGNORS
    storm_generations: int = STORM_GENERATIONS
    storm_window_ms: int = STORM_WINDOW_MS
    session_timeout_ms: int | None = None
    slos: Sequence[Objective] = ()
    format: str = "parquet"
    cluster_id: str = UNKNOWN_CLUSTER
    retention: Retention | None = None

    def check(self) -> None:
        """Raise ConfigError, before a log is read, if an assignor is not known or the cluster's name cannot be one."""
        for assignor in self.assignors:
            new_assignor(assignor)
        if not self.cluster_id or len(self.cluster_id) > 200 or "\0" in self.cluster_id:
            raise ConfigError(
                f"the name of a cluster must have 1 to 200 characters, not {self.cluster_id!r}"
            )

    def context(
        self, names: Mapping[str, str], took_over: Mapping[tuple[int, int], int]
    ) -> Context:
        return Context(
            names=names,
            took_over=took_over,
            assignors=tuple(self.assignors),
            session_timeout_ms=self.session_timeout_ms,
            storm_generations=self.storm_generations,
            storm_window_ms=self.storm_window_ms,
        )


class Engine(Protocol):
    """Runs the stages of reading and explaining, and writes their tables."""

    @property
    def staged(self) -> Staged: ...

    def read(self) -> None:
        """Read the log; writes the tables and stages of `groupsdk.history.read.reading`."""

    def resolve_transactions(self) -> None:
        """Resolve commits within transactions, and write them; see `reading.resolve_transactions`."""

    def learn_session_timeout(self, context: Context) -> None:
        """Write the stage "sizes": the silences that show how long sessions last."""

    def explain(self, context: Context) -> None: ...

    def lag(self) -> None:
        """Write the table `lag`, which compares groups."""


STEPS: Final = ("read", "transactions", "topics", "session timeout", "groups", "lag", "quality")


def silent(name: str, done: int, steps: int) -> None: ...


def make_tables(
    engine: Engine,
    options: Options,
    names: Callable[[], Iterable[tuple[str, str]]],
    progress: Progress,
) -> None:
    def step(name: str) -> None:
        logger.info("history: %s", name)
        progress(name, STEPS.index(name), len(STEPS))

    staged = engine.staged
    step("read")
    engine.read()
    step("transactions")
    covered = staged.read(COVERAGE)
    if sum_of(covered, "deferred"):
        engine.resolve_transactions()
    step("topics")
    named = topic_names(staged.read(TOPIC_HINTS), names(), staged.committed)
    staged.write("topics", topics_table(named))
    context = options.context(named, took_over(covered))
    step("session timeout")
    if options.session_timeout_ms is None and sum_of(covered, "modern"):
        # records of the classic protocol have the session timeout
        engine.learn_session_timeout(context)
        context = with_learned_timeout(context, staged.read(SIZES))
    step("groups")
    engine.explain(context)
    step("lag")
    engine.lag()
    step("quality")
    staged.write("quality", quality_table(covered, staged.read(TALLY)))
    end_ms = latest_ms(covered)
    if options.slos and end_ms is not None:
        needed = {name: staged.read(name, columns) for name, columns in NEEDED.items()}
        staged.write("slo", slo_table(budgets(options.slos, needed, end_ms)))


def with_learned_timeout(context: Context, sizes: Any) -> Context:
    return replace(context, learned_session_timeout_ms=session_timeout(sizes))
