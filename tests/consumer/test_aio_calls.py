"""Test that the consumer for asyncio has the methods of the one for threads, with their arguments and docstrings."""

import inspect

from docs.list_async_calls import AT_ONCE, AWAITED, pages
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.consumer import GroupConsumer
from tests.support.forms import arguments, public_names


BY_HAND = {"subscribe", "poll", "consume", "commit", "close"}
"""What waits in a way of its own, or has other defaults."""
FOR_THE_OTHER_FORM = {"reads", "call_until"}


def test_the_generated_module_is_up_to_date() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m docs.list_async_calls"


def test_every_method_of_the_consumer_has_an_asyncio_form() -> None:
    names = public_names(GroupConsumer) - FOR_THE_OTHER_FORM
    assert names == public_names(AsyncGroupConsumer)
    assert names == {*AWAITED, *AT_ONCE, *BY_HAND}


def test_generated_methods_have_the_arguments_and_docstrings_of_the_consumer() -> None:
    for name in (*AWAITED, *AT_ONCE):
        method, form = getattr(GroupConsumer, name), getattr(AsyncGroupConsumer, name)
        assert inspect.getdoc(form) == inspect.getdoc(method), name
        if not isinstance(method, property):
            assert arguments(form) == arguments(method), name
            assert inspect.iscoroutinefunction(form) == (name in AWAITED), name


def test_asyncio_forms_by_hand_take_the_arguments_of_the_consumer() -> None:
    for name in BY_HAND - {"subscribe", "commit"}:
        method, form = getattr(GroupConsumer, name), getattr(AsyncGroupConsumer, name)
        assert arguments(form) == arguments(method), name
    # functions in place of a listener are left out, and a commit is awaited unless told otherwise
    subscribe = arguments(GroupConsumer.subscribe)
    assert arguments(AsyncGroupConsumer.subscribe) == {
        name: subscribe[name] for name in ("self", "topics", "listener")
    }
    commit = arguments(GroupConsumer.commit)
    assert arguments(AsyncGroupConsumer.commit) == commit | {
        "asynchronous": (inspect.Parameter.KEYWORD_ONLY, False)
    }
