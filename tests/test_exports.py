"""Holds the public names: each exists once, belongs to us and says what it does."""

import ast
import importlib
import inspect
import types

import pytest

import groupsdk
from docs import list_public
from docs.build_site import assigned, parsed
from tests.support.cases import each_case


def lazy_homes(module: str) -> dict[str, str]:
    """Maps the names that a module imports on first use to the modules that define them."""
    tree = parsed(module)
    return {**(assigned(tree, "_HOMES") or {}), **(assigned(tree, "_HEAVY_HOMES") or {})}


def public() -> dict[str, object]:
    """Maps every public name to what stands behind it."""
    return {name: getattr(groupsdk, name) for name in groupsdk.__all__}


def test_the_names_that_everyone_needs_are_there() -> None:
    assert {
        "AbstractCoordinator",
        "AsyncAbstractCoordinator",
        "Coordinator",
        "Generation",
        "GroupSdkError",
        "NO_GENERATION",
    } <= set(groupsdk.__all__)


def test_every_name_exists() -> None:
    missing = [name for name in groupsdk.__all__ if not hasattr(groupsdk, name)]
    assert not missing, f"named in groupsdk.__all__ but not there: {missing}"


def test_no_name_is_listed_twice() -> None:
    assert len(groupsdk.__all__) == len(set(groupsdk.__all__))


def test_a_name_is_what_its_module_calls_it() -> None:
    renamed = {
        name: value.__name__
        for name, value in public().items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__name__ != name
    }
    # so that a traceback and a log line show the name that a user can look up
    assert not renamed, f"exported under another name than their own: {renamed}"


def test_no_module_is_exported_as_a_name() -> None:
    exported = [name for name, value in public().items() if isinstance(value, types.ModuleType)]
    assert not exported, f"modules in groupsdk.__all__: {exported}"


def test_every_public_class_and_function_says_what_it_does() -> None:
    silent = [
        name
        for name, value in public().items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not documented(value)
    ]
    assert not silent, f"without a docstring of their own: {silent}"


def test_every_public_method_says_what_it_does() -> None:
    silent = [
        f"{name}.{attribute}"
        for name, value in public().items()
        if inspect.isclass(value)
        for attribute, member in vars(value).items()
        if not attribute.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property))
        and not inspect.getdoc(getattr(value, attribute))
    ]
    assert not silent, f"without a docstring: {silent}"


def documented(value: type | types.FunctionType) -> bool:
    """Says whether something has a docstring that it did not inherit and that no tool made.

    A dataclass without one gets its own signature as a docstring.
    """
    text = value.__doc__
    return bool(text) and not str(text).startswith(f"{value.__name__}(")


def test_every_name_has_a_home_and_every_home_a_name() -> None:
    # the homes are a table of their own, as the imports beside it are for type checkers only
    assert set(groupsdk._HOMES) == set(groupsdk.__all__) - {"__version__"}
    elsewhere = {
        name: value.__module__
        for name, value in public().items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ != groupsdk._HOMES[name]
    }
    assert not elsewhere


def test_the_consumers_are_there_for_those_who_ask_for_them_alone() -> None:
    for name, home in groupsdk._HEAVY_HOMES.items():
        assert getattr(groupsdk, name).__module__ == home
    assert not set(groupsdk._HEAVY_HOMES) & set(groupsdk.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'AbstractCordinator'"):
        groupsdk.AbstractCordinator  # noqa: B018 - the access is what is tested


@each_case("module", [each for each in list_public.public() if lazy_homes(each)])
def test_type_checkers_are_told_of_every_name_that_is_imported_on_first_use(module: str) -> None:
    (block,) = (node for node in parsed(module).body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    told = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == lazy_homes(module)


def test_listing_has_the_public_names_and_no_more() -> None:
    importlib.import_module("groupsdk.clock")  # a submodule that is imported is an attribute, too

    assert set(dir(groupsdk)) == {*groupsdk.__all__, *groupsdk._HEAVY_HOMES}


def test_page_of_public_names_has_those_of_the_code() -> None:
    for path, text in list_public.pages().items():
        stale = path.read_text(encoding="utf-8") != text
        assert not stale, f"public names came or went: run python -m docs.list_public, see {path}"


@each_case("module", list_public.public())
def test_listed_name_can_be_imported_from_its_module(module: str) -> None:
    found = importlib.import_module(module)
    for name in list_public.public()[module]:
        assert getattr(found, name) is not None
