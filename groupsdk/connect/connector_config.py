"""Read the keys of a connector's configuration that mean the same for every class, under Kafka Connect's names."""

from typing import Final

from groupsdk.connect.config_records import MAX_TASKS
from groupsdk.connect.config_state import Config, flag_of, number_of
from groupsdk.connect.errors import ConnectError, ConnectorConfigError
from groupsdk.connect.secrets import NO_PROVIDERS, ConfigProviders, conceal, secrets_of
from groupsdk.connect.standby import replicas_of
from groupsdk.connect.task import Connector, check_standby
from groupsdk.connect.tolerance import ErrorPolicy
from groupsdk.connect.work import weight_of
from groupsdk.limits import MAX_INT32


TASKS_MAX_KEY: Final = "tasks.max"
"""The most tasks that a connector may have; not set: as many as it plans. Connect's default is 1."""
TASKS_MAX_ENFORCE_KEY: Final = "tasks.max.enforce"
"""Whether a connector that plans more fails (KIP-1004); otherwise that is only logged."""


def check_config(
    kind: type[Connector], config: Config, providers: ConfigProviders = NO_PROVIDERS
) -> None:
    """Refuse a configuration that is wrong, for every class or for this one.

    Raises:
        ConnectorConfigError: names the field; the reason holds no secret.
        ConnectError: the class raised something else, which holds a secret.
    """
    # these as they are written: who reads them has no providers
    weight_of(config)
    if replicas_of(config):
        check_standby(kind)
    tasks_max_of(config)
    flag_of(config, TASKS_MAX_ENFORCE_KEY, default=True)
    ErrorPolicy.of(config)
    resolved = providers.resolve(config)
    secrets = {*resolved.variables, *secrets_of(resolved.config, kind.secrets)}
    try:
        kind.validate(resolved.config)
    except ConnectorConfigError as error:
        raise ConnectorConfigError(error.field, conceal(error.reason, secrets)) from None
    except Exception as error:
        shown = conceal(str(error), secrets)
        if shown == str(error):
            raise
        raise ConnectError(f"{type(error).__name__}: {shown}") from None


def tasks_max_of(config: Config) -> int | None:
    """Return how many tasks a connector may have; None: as many as it plans.

    Raises:
        ConnectorConfigError: it is not a number of 1 or more.
    """
    text = config.get(TASKS_MAX_KEY)
    return None if text is None else number_of(TASKS_MAX_KEY, text, 1, MAX_INT32)


def check_count(name: str, config: Config, count: int) -> str | None:
    """Return what to log of a connector that has planned so many tasks; None: nothing.

    Raises:
        ConnectorConfigError: they are more than `tasks.max`, which is enforced, or than anything can hold.
    """
    if count > MAX_TASKS:
        raise ConnectorConfigError("tasks", f"{count} are more than {MAX_TASKS}")
    most = tasks_max_of(config)
    if most is None or count <= most:
        return None
    why = f"{count} tasks are planned, and {TASKS_MAX_KEY} is {most}"
    if flag_of(config, TASKS_MAX_ENFORCE_KEY, default=True):
        raise ConnectorConfigError(TASKS_MAX_KEY, f"{why}: plan fewer, or raise {TASKS_MAX_KEY}")
    return f"connector {name}: {why}, which is not enforced"
