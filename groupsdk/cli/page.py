"""The live page of commands: their options `--web`, who may ask, and its server."""

import importlib.util
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from groupsdk.connect.rest.settings import RestSettings
    from groupsdk.web.page import ClusterPage
    from groupsdk.web.server import PageServer

F = TypeVar("F", bound=Callable[..., Any])


def page_options(function: F) -> F:
    """Give a command the options of the live page, as the parameter `page`; None without `--web`."""

    @wraps(function)
    def called(
        *args: Any,
        web: str | None,
        web_user: str | None,
        web_password: str | None,
        web_allowed_hosts: str | None,
        **rest: Any,
    ) -> Any:
        page = None
        if web is not None:
            page = page_settings(web, web_user, web_password, web_allowed_hosts)
        return function(*args, page=page, **rest)

    decorated: Any = called
    for option in (
        click.option(
            "--web-allowed-hosts",
            metavar="NAMES",
            envvar="GROUPSDK_WEB_ALLOWED_HOSTS",
            help="Further names, host,host, under which browsers may ask for the page.",
        ),
        click.option("--web-password", envvar="GROUPSDK_WEB_PASSWORD", hidden=True),
        click.option(
            "--web-user",
            metavar="NAME",
            envvar="GROUPSDK_WEB_USER",
            help="The user of the page; GROUPSDK_WEB_PASSWORD holds the password.",
        ),
        click.option(
            "--web",
            metavar="HOST:PORT",
            help="Serve a live page for a browser here; needs the extra groupsdk[rest].",
        ),
    ):
        decorated = option(decorated)
    result: F = decorated
    return result


def page_settings(
    place: str, user: str | None, password: str | None, allowed_hosts: str | None
) -> "RestSettings":
    """Read the options of the live page.

    Raises:
        ConfigError: one is wrong, the page would be open to others, or packages are missing.
    """
    for module in ("starlette", "uvicorn"):
        if importlib.util.find_spec(module) is None:
            raise ConfigError("--web needs more packages: pip install 'groupsdk[rest]'")
    from groupsdk.connect.rest.settings import RestSettings, is_loopback

    host, colon, port = place.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and colon and port.isdecimal() and int(port) < 65_536):
        raise ConfigError(f"--web must be HOST:PORT, such as 127.0.0.1:8080, not {place!r}")
    if (user is None) != (password is None):
        raise ConfigError("--web: give both --web-user and GROUPSDK_WEB_PASSWORD, or neither")
    if user is None and not is_loopback(host):
        raise ConfigError(
            f"--web: {host} can be reached by others: give --web-user and GROUPSDK_WEB_PASSWORD,"
            " or listen on 127.0.0.1"
        )
    names = tuple(each.strip() for each in (allowed_hosts or "").split(",") if each.strip())
    return RestSettings(
        host=host, port=int(port), user=user, password=password, allowed_hosts=names
    )


def cluster_page(
    settings: Mapping[str, Any],
    patterns: Collection[str] = (),
    *,
    interval_s: float = 1.0,
    timeout_s: float = 15.0,
) -> "ClusterPage":
    """Return the page of a cluster, on which the installed assignors can be tried."""
    from groupsdk.cli.assign import offered_assignors, what_if
    from groupsdk.web.page import ClusterPage

    return ClusterPage(
        settings,
        patterns,
        interval_s=interval_s,
        assignors=offered_assignors(),
        what_if=what_if,
        timeout_s=timeout_s,
    )


def serve_page(
    page: "ClusterPage", settings: "RestSettings", metrics: Callable[[], str] | None = None
) -> "PageServer":
    """Return a server of the page, a context manager that says where it listens when it has begun.

    Args:
        page: what is shown.
        settings: where to listen, and who may ask.
        metrics: returns OpenMetrics text for `/metrics`; None: there is no such path.
    """
    from groupsdk.web.server import PageServer

    return PageServer(
        page, settings, metrics, told=lambda url: click.echo(f"the page is at {url}", err=True)
    )
