"""Test that names of a package are imported when they are first used, and only then."""

import sys
import types
from collections.abc import Iterator

import pytest

from groupsdk.lazy_imports import lazy_attributes


@pytest.fixture
def package() -> Iterator[types.ModuleType]:
    name = "a_package_for_this_test"
    module = types.ModuleType(name)
    module.__getattr__ = lazy_attributes(name, {"sqrt": "math"})  # type: ignore[method-assign]
    sys.modules[name] = module
    yield module
    del sys.modules[name]


def test_a_name_is_looked_up_where_it_stands_and_kept(package: types.ModuleType) -> None:
    assert "sqrt" not in vars(package)
    assert package.sqrt(9) == 3
    assert "sqrt" in vars(package)


def test_an_unknown_name_is_refused_as_by_any_module(package: types.ModuleType) -> None:
    with pytest.raises(AttributeError, match="'a_package_for_this_test' has no attribute 'cbrt'"):
        _ = package.cbrt
