"""The steps from a log to its tables, whichever engine carries them out."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from groupsdk.history.groups.assignor_replay import AssignorLike, resolve
from groupsdk.history.groups.explaining import SIZES, STORM_GENERATIONS, STORM_WINDOW_MS, Context
from groupsdk.history.reading import COVERAGE, TALLY, TOLD
from groupsdk.history.stage_tables import Staged, sum_of
from groupsdk.history.whole_log import (
    quality_table,
    session_timeout,
    took_over,
    topic_names,
    topics_table,
)


logger = logging.getLogger(__name__)

DEFAULT_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""What is replayed unless the user says otherwise; names, for the package `assignors` to know."""

Progress = Callable[[str, int, int], None]
"""Told before each step: its name, how many are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run can be told.

    Attributes:
        assignors: which assignors are replayed.
        storm_generations: so many generations within `storm_window_ms` make a storm.
        storm_window_ms: milliseconds.
        session_timeout_ms: of members whose records do not say, in milliseconds; None: it is learnt from the log.
        format: of the tables: "parquet", or one that the session has besides ("delta", "iceberg").
    """

    assignors: Sequence[AssignorLike] = DEFAULT_ASSIGNORS
    storm_generations: int = STORM_GENERATIONS
    storm_window_ms: int = STORM_WINDOW_MS
    session_timeout_ms: int | None = None
    format: str = "parquet"

    def check(self) -> None:
        """Check the options before a log is read.

        Raises:
            ConfigError: an assignor is not known.
        """
        for assignor in self.assignors:
            resolve(assignor)


class Engine(Protocol):
    """Runs the two stages: reading, and the walk over the groups; and writes what they make."""

    @property
    def staged(self) -> Staged:
        """The tables and stages of the run."""

    def read(self) -> None:
        """Read the log; writes the stages of `groupsdk.history.reading`, and its tables."""

    def resolve_transactions(self) -> None:
        """Tell what became of commits within transactions, and write them; see `reading.resolve_transactions`."""

    def learn_session_timeout(self, context: Context) -> None:
        """Write the stage "sizes": what silences tell of how long sessions last."""

    def explain(self, context: Context) -> None:
        """Go through all groups once, and write the tables that are of one group each."""

    def lag(self) -> None:
        """Write the table `lag`, which compares the groups."""


STEPS: Final = ("read", "transactions", "topics", "session timeout", "groups", "lag", "quality")
"""The names of the steps."""


def silent(name: str, done: int, steps: int) -> None:
    """Tell nobody of a step."""


def make_tables(
    engine: Engine,
    options: Options,
    names: Callable[[], Iterable[tuple[str, str]]],
    progress: Progress,
) -> None:
    """Make every table.

    Args:
        engine: carries the steps out.
        options: what to do differently.
        names: returns ids and names of topics, as asked from a cluster.
        progress: told of each step.
    """

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
    named = topic_names(staged.read(TOLD), names(), staged.committed)
    staged.write("topics", topics_table(named))
    context = Context(
        names=named,
        took_over=took_over(covered),
        assignors=tuple(options.assignors),
        session_timeout_ms=options.session_timeout_ms,
        storm_generations=options.storm_generations,
        storm_window_ms=options.storm_window_ms,
    )
    step("session timeout")
    if options.session_timeout_ms is None and sum_of(covered, "modern"):
        # the records of the classic protocol say how long sessions last
        engine.learn_session_timeout(context)
        context = with_learnt(context, staged.read(SIZES))
    step("groups")
    engine.explain(context)
    step("lag")
    engine.lag()
    step("quality")
    staged.write("quality", quality_table(covered, staged.read(TALLY)))


def with_learnt(context: Context, sizes: Any) -> Context:
    """Return the context with the session timeout that the log tells."""
    return Context(
        names=context.names,
        took_over=context.took_over,
        assignors=context.assignors,
        session_timeout_ms=context.session_timeout_ms,
        learnt_ms=session_timeout(sizes),
        storm_generations=context.storm_generations,
        storm_window_ms=context.storm_window_ms,
    )
