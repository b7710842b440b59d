"""The command `groupsdk`: choose a command by its name, run it, and turn errors into exit codes."""

from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import get_completion_class

from groupsdk.cli.command import Command, CommandGroup, ExitCode, complain
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.version import __version__


_COMMANDS: Final = {
    "groups": (
        "groupsdk.cli.groups:groups",
        "list, describe, reset and delete the groups of a cluster",
    ),
    "log": (
        "groupsdk.cli.log:log",
        "show the log of the group coordinators: offsets, groups, transactions",
    ),
    "assign": ("groupsdk.cli.assign:assign", "show what each assignor would do to a group"),
    "watch": (
        "groupsdk.cli.watch:watch",
        "watch groups live: members, lag, rebalances and who caused them",
    ),
    "doctor": (
        "groupsdk.cli.doctor:doctor",
        "find the problems of a cluster or a configuration, and what to change",
    ),
    "run": (
        "groupsdk.cli.run:run",
        "run a coordinator, a consumer's handler or an election of a module",
    ),
    "broker": ("groupsdk.cli.broker:broker", "run a Kafka broker for local work and tests"),
    "worker": (
        "groupsdk.cli.worker:worker",
        "run a program's connectors and tasks as one worker of a group",
    ),
    "history": (
        "groupsdk.cli.history:history",
        "explain a cluster's groups from its own log, with Spark or without",
    ),
}
_SHELLS: Final = ("bash", "zsh", "fish")
_EXTRAS: Final = {
    "rich": "cli",
    "textual": "watch",
    "starlette": "rest",
    "uvicorn": "rest",
    "pyspark": "spark",
    "deltalake": "delta",
    **dict.fromkeys(("jinja2", "numpy", "pyarrow"), "history"),
}
"""The extra of groupsdk that installs a package."""

groupsdk = CommandGroup(
    name="groupsdk",
    places=_COMMANDS,
    help="Kafka group membership: inspect and change groups, run workers, a broker, a history.",
    epilog="Options can be set in the environment, such as --bootstrap-servers as GROUPSDK_BOOTSTRAP_SERVERS.",
)
click.version_option(__version__, prog_name="groupsdk", message="%(prog)s %(version)s")(groupsdk)


@groupsdk.command(
    "completion",
    cls=Command,
    examples=[
        ('eval "$(groupsdk completion bash)"', "in ~/.bashrc"),
        ("groupsdk completion fish > ~/.config/fish/completions/groupsdk.fish", "once, for fish"),
    ],
    short_help="print the completion script of a shell",
)
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell, to be evaluated by it."""
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(groupsdk, {}, "groupsdk", "_GROUPSDK_COMPLETE").source())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command with the words after the program's name, by default the process's; return its exit code."""
    try:
        found = groupsdk.main(
            None if argv is None else list(argv), prog_name="groupsdk", standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.WRONG_USE
    except click.ClickException as error:
        complain(" ".join(error.format_message().split("\n")))
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(error.ctx.get_usage(), err=True)
            click.echo(f"Try '{error.ctx.command_path} --help'.", err=True)
        return ExitCode.WRONG_USE
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except ConfigError as error:
        complain(str(error))
        return ExitCode.WRONG_USE
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(package)
        if extra is None:
            raise
        instead = ", or give --json" if package == "rich" else ""
        complain(f"this needs the package {package}: pip install 'groupsdk[{extra}]'{instead}")
        return ExitCode.WRONG_USE
    except (GroupSdkError, OSError) as error:
        complain(str(error))
        return ExitCode.FAILED
    return found if isinstance(found, int) else ExitCode.OK
