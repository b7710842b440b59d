"""Tests the list of what is served against the declarations of the messages and the handlers."""

from importlib import import_module

from groupsdk.broker.server.apis import APIS
from groupsdk.wire.api import request_class
from tests.support.cases import each_case


@each_case("key", sorted(APIS))
def test_what_is_served_is_declared_and_has_a_handler(key: int) -> None:
    served = APIS[key]
    message = request_class(key)
    assert message.__name__ == f"{served.name}Request"
    assert message.api.min_version <= served.min_version <= served.max_version
    assert served.max_version <= message.api.max_version
    module = import_module(f"groupsdk.broker.server.handlers.{served.module}")
    assert callable(getattr(module, served.function))


def test_only_produce_shows_more_than_it_serves() -> None:
    assert [key for key, each in APIS.items() if each.advertised_from is not None] == [0]
