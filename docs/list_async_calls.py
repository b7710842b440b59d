#!/usr/bin/env python
"""Write the methods of `AsyncGroupConsumer` that only pass calls on, from `GroupConsumer`: `python -m docs.list_async_calls`."""

import ast
import inspect
from pathlib import Path
from typing import Final

from docs.regions import DOCS, Pages, write
from groupsdk.consumer import consumer


MODULE: Final[Path] = DOCS.parent / "groupsdk" / "consumer" / "aio_calls.py"
AWAITED: Final = (
    *("unsubscribe", "store_offsets", "committed", "position", "give_back", "count_processed"),
    *("seek", "pause", "resume", "get_watermark_offsets", "offsets_for_times", "list_topics"),
)
"""The methods that may wait: they run on the consumer's thread."""
AT_ONCE: Final = (
    *("config", "metrics", "paused", "subscription", "assignment", "group_protocol", "snapshot"),
    *("generation", "generation_if_stable", "member_id", "memberid", "consumer_group_metadata"),
    *("events", "enforce_rebalance", "report_load", "set_sasl_credentials", "wakeup"),
)
"""The methods and properties that wait for nothing: they are not awaited."""

_HEAD: Final = '''"""The methods of `AsyncGroupConsumer` that only pass calls on.

Generated from `GroupConsumer` by `python -m docs.list_async_calls`: change the methods and docstrings there.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, TypeVar

from confluent_kafka import Message, TopicPartition as NativePartition

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.confluent_types import ClusterMetadata, PartitionLike
from groupsdk.consumer.consumer import GroupConsumer
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import Generation


T = TypeVar("T")


class AsyncConsumerCalls:
    """The calls that `AsyncGroupConsumer` passes on to a `GroupConsumer` as they are."""

    _consumer: GroupConsumer

    async def _run(self, work: Callable[[], T]) -> T:
        raise NotImplementedError
'''


def _passed_on(method: ast.FunctionDef) -> str:
    """Return a method's arguments as its own body passes them on; iterables are read by the caller's thread."""
    passed: list[str] = []
    for each in method.args.args[1:]:
        wanted = "" if each.annotation is None else ast.unparse(each.annotation)
        passed.append(f"list({each.arg})" if wanted.startswith("Iterable[") else each.arg)
    passed += [f"{each.arg}={each.arg}" for each in method.args.kwonlyargs]
    return ", ".join(passed)


def _body(method: ast.FunctionDef, *, is_property: bool) -> list[str]:
    target, passed = f"self._consumer.{method.name}", _passed_on(method)
    returns = "" if method.returns is None or ast.unparse(method.returns) == "None" else "return "
    if method.name not in AWAITED:
        return [f"        {returns}{target}{'' if is_property else f'({passed})'}"]
    work = f"partial({target}, {passed})" if passed else target
    return [f"        work = {work}", f"        {returns}await self._run(work)"]


def _form(method: ast.FunctionDef, source: list[str]) -> list[str]:
    """Return the lines of a method: the signature and docstring of `GroupConsumer`, and a body."""
    is_property = any(ast.unparse(each) == "property" for each in method.decorator_list)
    docstring = method.body[0]
    assert docstring.end_lineno is not None
    lines = source[method.lineno - 1 : docstring.end_lineno]
    if method.name in AWAITED:
        lines[0] = lines[0].replace("    def ", "    async def ", 1)
    decorated = ["    @property"] if is_property else []
    return ["", *decorated, *lines, *_body(method, is_property=is_property)]


def pages() -> Pages:
    """Return the generated module, as it has to be."""
    text = inspect.getsource(consumer)
    (owner,) = (
        each
        for each in ast.parse(text).body
        if isinstance(each, ast.ClassDef) and each.name == "GroupConsumer"
    )
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    lines = [
        line for name in (*AWAITED, *AT_ONCE) for line in _form(methods[name], text.splitlines())
    ]
    return {MODULE: _HEAD + "\n".join(lines) + "\n"}


if __name__ == "__main__":
    write(pages)
