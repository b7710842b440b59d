"""What commands answer to HTTP with: the options `--web` and `--rest`, and the live page."""

import importlib.util
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from groupsdk.cli.command import together
from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from groupsdk.http.settings import HttpSettings
    from groupsdk.telemetry.openmetrics import Family
    from groupsdk.web.page import ClusterPage
    from groupsdk.web.server import PageServer

F = TypeVar("F", bound=Callable[..., Any])


def http_options(option: str, text: str, advertised: str | None = None) -> Callable[[F], F]:
    """Return a decorator that adds the options of an HTTP server, which begin with `option`, such as "--web".

    `advertised` is the help of the option for the URL under which others reach it.
    """
    variable = f"GROUPSDK_{option.lstrip('-').upper()}"
    options: list[Callable[[Any], Any]] = [
        click.option(option, metavar="HOST:PORT", envvar=variable, help=text),
        click.option(
            f"{option}-user",
            metavar="NAME",
            envvar=f"{variable}_USER",
            help=f"The user for basic authentication; {variable}_PASSWORD holds the password.",
        ),
        click.option(f"{option}-password", envvar=f"{variable}_PASSWORD", hidden=True),
        click.option(
            f"{option}-allowed-hosts",
            metavar="NAME,...",
            envvar=f"{variable}_ALLOWED_HOSTS",
            help="More host names that requests may use to address it.",
        ),
    ]
    if advertised is not None:
        variable = f"{variable}_ADVERTISED_URL"
        url = f"{option}-advertised-url"
        options.append(click.option(url, metavar="URL", envvar=variable, help=advertised))
    return together(*options)


def check_http_packages(option: str) -> None:
    """Raise ConfigError if the packages of an HTTP server are missing; `option` is for the error."""
    for module in ("starlette", "uvicorn"):
        if importlib.util.find_spec(module) is None:
            raise ConfigError(f"{option} needs more packages: pip install 'groupsdk[rest]'")


def page_options(function: F) -> F:
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
            check_http_packages("--web")
            from groupsdk.http.settings import HttpSettings

            page = HttpSettings.of(
                "--web",
                web,
                user=web_user,
                password=web_password,
                allowed_hosts=web_allowed_hosts,
            )
        return function(*args, page=page, **rest)

    text = "Serve a live web page here; needs the extra groupsdk[rest]."
    decorated: Any = http_options("--web", text)(called)
    result: F = decorated
    return result


def cluster_page(
    settings: Mapping[str, Any],
    patterns: Collection[str] = (),
    *,
    interval_s: float = 1.0,
    timeout_s: float = 15.0,
    reads_log: bool = True,
) -> "ClusterPage":
    """Return the live page of a cluster, or of the groups that match shell patterns, on which the installed assignors can be tried."""
    from groupsdk.cli.assign import offered_assignors, what_if
    from groupsdk.web.page import ClusterPage

    return ClusterPage(
        settings,
        patterns,
        interval_s=interval_s,
        assignors=offered_assignors(),
        what_if=what_if,
        timeout_s=timeout_s,
        reads_log=reads_log,
    )


def page_families(page: "ClusterPage") -> "list[Family]":
    """Return the metrics of the groups that a page shows, and of the findings about them. May be called on any thread."""
    from groupsdk.telemetry.registry import finding_families, watched_families

    findings = finding_families(page.verdicts.values(), page.known_log)
    return [*watched_families(page.view), *findings]


def serve_page(
    page: "ClusterPage",
    settings: "HttpSettings",
    metrics: "Callable[[], Iterable[Family]] | None" = None,
) -> "PageServer":
    """Return a server of the page, a context manager that says where it listens when it has begun."""
    from groupsdk.web.server import PageServer

    return PageServer(
        page,
        settings,
        metrics,
        on_listening=lambda url: click.echo(f"the page is at {url}", err=True),
    )
