"""Keep the state of one group as bytes between two updates, so that it continues where it stopped."""

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from types import MethodType
from typing import Any, Final

from groupsdk.assignment import AssignorLike
from groupsdk.errors import DecodeError
from groupsdk.history.explain.assignor_replay import Candidate
from groupsdk.history.explain.commit_spans import Span, TopicPartition
from groupsdk.history.explain.departures import Silence, silence_size
from groupsdk.history.explain.explaining import Context, ExplainedGroup, TableRows
from groupsdk.history.explain.timeline.rows import GenerationRow, Row
from groupsdk.lazy_imports import override


_OWN: Final = ("groupsdk.", "assignors.")
_PLAIN: Final = frozenset(
    {
        *(("builtins", each) for each in ("set", "frozenset", "bytearray", "list", "dict")),
        *(("collections", each) for each in ("Counter", "defaultdict", "deque", "OrderedDict")),
    }
)
_TABLES: Final = "tables"
FINGERPRINTED: Final = ("explain", "follow", "read", "tables")
"""The packages whose code decides what tables and states hold."""
_COPY: Final = ".copy"
_UNREADABLE: Final = (
    *(pickle.UnpicklingError, EOFError, AttributeError, ImportError),
    *(IndexError, KeyError, TypeError, ValueError),
)


class ReplayContext:
    """The context and assignors of one update, and the pickling of groups that refer to them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.candidates = [Candidate(each) for each in context.assignors]
        self._parts = {
            "context": context,
            "names": context.names,
            **{f"candidate {place}": each for place, each in enumerate(self.candidates)},
            **{
                f"candidate {place}{_COPY}": each.copy for place, each in enumerate(self.candidates)
            },
        }
        self._names = {id(each): name for name, each in self._parts.items()}
        self._packages = (*_OWN, *(f"{each}." for each in _packages(context.assignors)))

    def group(self, group_id: str) -> "FollowedGroup":
        return FollowedGroup(group_id, self)

    def dump(self, group: "FollowedGroup") -> bytes | None:
        """Pickle a group's state, without the context, as the next update knows more, and without the rows made.

        None if an assignor of the user's has state that cannot be pickled: the group has to be replayed from its first record.
        """
        file = BytesIO()
        writer = _Writer(file, {**self._names, id(group.tables): _TABLES})
        try:
            writer.dump(group)
        except (pickle.PicklingError, TypeError, AttributeError):
            return None
        return file.getvalue()

    def load(self, data: bytes) -> "FollowedGroup":
        """Unpickle a group's state, and attach it to the current context.

        Creates only classes of this package, of `assignors`, and of the packages of the context's assignors; DecodeError for others.
        """
        tables: TableRows = defaultdict(list)
        reader = _Reader(BytesIO(data), {**self._parts, _TABLES: tables}, self._packages)
        try:
            found = reader.load()
        except _UNREADABLE as error:
            raise DecodeError(f"the kept state of a group cannot be read: {error}") from error
        if not isinstance(found, FollowedGroup):
            raise DecodeError(f"the kept state of a group is a {type(found).__name__}")
        return found


class FollowedGroup(ExplainedGroup):
    """One group in a log that continues; the caller removes the rows of `tables` and `sizes`.

    `explained_ms`: when the newest generation was written whose rows are made; -1 if there is none.
    """

    def __init__(self, group_id: str, replay_context: ReplayContext) -> None:
        self.tables: TableRows = defaultdict(list)
        self.tally: Counter[tuple[int, str]] = Counter()
        self.sizes: list[tuple[int, int]] = []
        self.explained_ms = -1
        super().__init__(
            group_id, replay_context.context, self.tables, self.tally, replay_context.candidates
        )

    @override
    def _silences(self, rows: Sequence[Row], generation: GenerationRow | None) -> Iterator[Silence]:
        for each in super()._silences(rows, generation):
            size = silence_size(each)
            if size is not None:
                self.sizes.append(size)
            yield each

    @override
    def _end(self, generation: GenerationRow | None) -> Iterable[tuple[TopicPartition, Span]]:
        if generation is not None:
            self.explained_ms = max(self.explained_ms, generation.ts_ms)
        return super()._end(generation)


class _Writer(pickle.Pickler):
    def __init__(self, file: BytesIO, known: Mapping[int, str]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._known = known

    @override
    def persistent_id(self, obj: Any) -> str | None:
        if type(obj) is MethodType:
            # a bound method is a new object on each access; unpickling it as a method needs `getattr`, which allows anything
            of_what = self._known.get(id(obj.__self__))
            return f"{of_what}{_COPY}" if of_what and obj.__name__ == "copy" else None
        return self._known.get(id(obj))


class _Reader(pickle.Unpickler):
    def __init__(self, file: BytesIO, known: Mapping[str, Any], packages: tuple[str, ...]) -> None:
        super().__init__(file)
        self._known = known
        self._packages = packages

    @override
    def persistent_load(self, pid: Any) -> Any:
        return self._known[pid]

    @override
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) in _PLAIN:
            return super().find_class(module_name, global_name)
        if f"{module_name}.".startswith(self._packages) and "." not in global_name:
            found = super().find_class(module_name, global_name)
            # not a name that the module only imports
            if getattr(found, "__module__", None) == module_name:
                return found
        raise pickle.UnpicklingError(f"{module_name}.{global_name} does not belong there")


def _packages(assignors: Sequence[AssignorLike]) -> Iterator[str]:
    """Yield the top-level packages of the assignors that are not given by a plain name."""
    for each in assignors:
        if isinstance(each, str):
            module, colon, _ = each.partition(":")
            if colon:
                yield module.partition(".")[0]
            continue
        kind = each if isinstance(each, type) else type(each)
        yield kind.__module__.partition(".")[0]


@cache
def fingerprint() -> str:
    """Return a digest of the code that makes groups' tables: states and tables of other code cannot be continued."""
    digest = sha256()
    history = Path(__file__).parents[1]
    for folder in FINGERPRINTED:
        for file in sorted((history / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
