"""`groupsdk doctor`: find what keeps groups from working, and say what to change."""

import asyncio
from typing import Final

import click

from groupsdk.admin.diagnosis import Finding, Level, diagnose
from groupsdk.cli.command import Command, ExitCode, exit_with
from groupsdk.cli.connection import SERVERS_HINT, Connection, connection_options
from groupsdk.cli.output import cell, json_option, write_json
from groupsdk.cli.process import log_level_option, set_up_logging
from groupsdk.errors import ConfigError


_COLORS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


@click.command(
    cls=Command,
    examples=[
        ("groupsdk doctor --bootstrap-servers localhost:9092", "the cluster"),
        (
            "groupsdk doctor --config consumer.properties --group orders --topic sales",
            "a consumer's settings, and whether it may read",
        ),
    ],
)
@click.option("--group", metavar="NAME", help="Check the rights to this group.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="Check the rights to this topic; repeatable.",
)
@connection_options
@json_option
@log_level_option("error")
def doctor(
    group: str | None,
    topics: tuple[str, ...],
    connection: Connection,
    as_json: bool,
    log_level: str,
) -> None:
    """Check reach, TLS and SASL, versions, advertised addresses, rights, clocks, and timeouts that contradict.

    The settings are checked as a client would use them, a consumer's file included. Each finding says what to change;
    the exit code is 4 where there is one. Nothing is changed, and no group is joined.
    """
    set_up_logging(log_level)
    if not connection.settings.get("bootstrap.servers"):
        raise ConfigError(SERVERS_HINT)

    async def check() -> list[Finding]:
        found = []
        findings = diagnose(
            connection.settings,
            connection.others,
            group=group or connection.others.get("group.id"),
            topics=topics,
            timeout_s=connection.timeout_s,
        )
        async for each in findings:
            found.append(each)
            if not as_json:
                _write(each)
        return found

    found = asyncio.run(check())
    if as_json:
        write_json(found)
    if any(each.level is not Level.OK for each in found):
        exit_with(ExitCode.FINDINGS)


def _write(finding: Finding) -> None:
    level = click.style(f"{finding.level.value:8}", fg=_COLORS[finding.level])
    click.echo(f"{level} {finding.check:9} {cell(finding.text)}")
    if finding.remedy:
        click.echo(f"{'':18} -> {cell(finding.remedy)}")
