"""Holds the description to the routes that there are."""

from groupsdk.connect.rest.api import RestApi
from groupsdk.connect.rest.openapi import OPERATIONS, PAGE, document
from groupsdk.http.settings import HttpSettings
from tests.connect.workers import standalone


def test_every_route_is_described_and_every_description_is_a_route() -> None:
    with standalone() as worker:
        routes = {
            (method.lower(), route.path)  # type: ignore[attr-defined]
            for route in RestApi(worker, HttpSettings()).app().routes
            for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]  # all are Routes
        }
    described = {(method, path) for method, path, *_ in OPERATIONS}
    assert routes - described == {("get", "/openapi.json"), ("get", "/docs")}
    assert described <= routes
    assert set(document()["paths"]) == {path for _, path in described}


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assert "http://" not in PAGE
    assert "https://" not in PAGE
    assert "/connectors/{name}/status" in PAGE
