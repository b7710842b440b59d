"""Read the configuration keys common to all connector classes, under Kafka Connect's names."""

from dataclasses import dataclass
from traceback import format_exception_only
from typing import Final, Self

from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders, conceal
from groupsdk.connect.errors import ConnectError, ConnectorConfigError
from groupsdk.connect.group.work import replicas_of, weight_of
from groupsdk.connect.store.config_backing_store import MAX_TASKS, Config
from groupsdk.connect.store.status_backing_store import check_topic
from groupsdk.connect.tasks.task import Connector, check_standby
from groupsdk.coordinator import refuse_unrun
from groupsdk.limits import MAX_INT32, MAX_INT64


_ERRORS: Final = "errors."
_TOLERANCE: Final = f"{_ERRORS}tolerance"
_RETRY_TIMEOUT: Final = f"{_ERRORS}retry.timeout"
_RETRY_DELAY: Final = f"{_ERRORS}retry.delay.max.ms"
_LOG: Final = f"{_ERRORS}log.enable"
_LOG_RECORDS: Final = f"{_ERRORS}log.include.messages"
_DLQ: Final = f"{_ERRORS}deadletterqueue."
_DLQ_TOPIC: Final = f"{_DLQ}topic.name"
_DLQ_COPIES: Final = f"{_DLQ}topic.replication.factor"
_DLQ_HEADERS: Final = f"{_DLQ}context.headers.enable"
_MAX_COPIES: Final = 32_767
TASKS_MAX_KEY: Final = "tasks.max"
"""The most tasks that a connector may have; not set: as many as it plans. Connect's default is 1."""
TASKS_MAX_ENFORCE_KEY: Final = "tasks.max.enforce"
"""Whether a connector that plans more fails (KIP-1004); otherwise that is only logged."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The configured handling of records that fail. Build it with `of`."""

    tolerate: bool = False
    """Whether such records are skipped; otherwise the task fails: `errors.tolerance`."""
    retry_timeout_ms: int = 0
    """For how long to retry; 0: not at all, -1: without end."""
    retry_delay_max_ms: int = 60_000
    """The longest wait between two attempts."""
    log: bool = False
    """Whether errors that are tolerated are logged as well."""
    log_records: bool = False
    """Whether the log names the record; for one that is not from Kafka, its key and value."""
    dead_letter_topic: str = ""
    """The topic that such records are written to; "": none."""
    dead_letter_copies: int = -1
    """The replication factor of that topic if it has to be created; -1: the brokers' default."""
    dead_letter_headers: bool = False
    """Whether headers describe the failure (KIP-298)."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """Read the `errors.*` keys of a connector's configuration (KIP-298)."""
        if not any(key.startswith(_ERRORS) for key in config):
            return cls()
        tolerance = config.get(_TOLERANCE, "none").strip().lower()
        if tolerance not in ("none", "all"):
            raise ConnectorConfigError(
                _TOLERANCE, f"must be none or all, not {config[_TOLERANCE]!r}"
            )
        topic = config.get(_DLQ_TOPIC, "")
        try:
            topic = topic and check_topic(topic)
        except ValueError as error:
            raise ConnectorConfigError(_DLQ_TOPIC, str(error)) from None
        return cls(
            tolerate=tolerance == "all",
            retry_timeout_ms=number_of(
                _RETRY_TIMEOUT, config.get(_RETRY_TIMEOUT, "0"), -1, MAX_INT64
            ),
            retry_delay_max_ms=number_of(
                _RETRY_DELAY, config.get(_RETRY_DELAY, "60000"), 1, MAX_INT64
            ),
            log=flag_of(config, _LOG, default=False),
            log_records=flag_of(config, _LOG_RECORDS, default=False),
            dead_letter_topic=topic,
            dead_letter_copies=number_of(
                _DLQ_COPIES, config.get(_DLQ_COPIES, "-1"), -1, _MAX_COPIES
            ),
            dead_letter_headers=flag_of(config, _DLQ_HEADERS, default=False),
        )


def check_config(
    kind: type[Connector], config: Config, providers: ConfigProviders = NO_PROVIDERS
) -> None:
    """Raise ConnectorConfigError if a configuration is invalid, in general or for this class; the reason holds no secret.

    Raises ConnectError if the class raised something else, which holds a secret.
    """
    # these as they are written: who reads them has no providers
    weight_of(config)
    if replicas_of(config):
        check_standby(kind)
    tasks_max_of(config)
    flag_of(config, TASKS_MAX_ENFORCE_KEY, default=True)
    ErrorPolicy.of(config)
    resolved = providers.resolve(config)
    secrets = resolved.secrets(kind.secrets)
    # here as well as in `Connector.validate`: an override may not call it, and reads these keys
    for key in kind.required:
        if not resolved.config.get(key):
            raise ConnectorConfigError(key, "is missing")
    try:
        returned: object = kind.validate(resolved.config)
        refuse_unrun(returned)
    except ConnectorConfigError as error:
        raise ConnectorConfigError(error.field, conceal(error.reason, secrets)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        (said,) = format_exception_only(error)[-1:]
        shown = conceal(said, secrets)
        if isinstance(error, Exception) and shown == said:
            raise
        raise ConnectError(f"validate of {kind.__name__} raised {shown.strip()}") from None


def tasks_max_of(config: Config) -> int | None:
    """Return the maximum number of tasks of a connector; None for no limit."""
    text = config.get(TASKS_MAX_KEY)
    return None if text is None else number_of(TASKS_MAX_KEY, text, 1, MAX_INT32)


def check_count(name: str, config: Config, count: int) -> str | None:
    """Return the warning to log for a number of planned tasks, if any.

    Raises ConnectorConfigError if there are more than `tasks.max`, which is enforced, or more than `MAX_TASKS`.
    """
    if count > MAX_TASKS:
        raise ConnectorConfigError("tasks", f"{count} is more than the limit of {MAX_TASKS}")
    most = tasks_max_of(config)
    if most is None or count <= most:
        return None
    why = f"{count} tasks are planned, and {TASKS_MAX_KEY} is {most}"
    if flag_of(config, TASKS_MAX_ENFORCE_KEY, default=True):
        raise ConnectorConfigError(TASKS_MAX_KEY, f"{why}: plan fewer, or raise {TASKS_MAX_KEY}")
    return f"connector {name}: {why}, which is not enforced"


def flag_of(config: Config, key: str, *, default: bool) -> bool:
    """Return whether a key's value is "true" or "false", in any case. Raises ConnectorConfigError if it is neither."""
    text = config.get(key, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConnectorConfigError(key, f"must be true or false, not {config[key]!r}")
    return text == "true"


def number_of(key: str, text: str, least: int, most: int) -> int:
    """Parse an integer. Raises ConnectorConfigError if it is not one, or out of bounds."""
    number: int | None
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise ConnectorConfigError(key, f"must be an integer from {least} to {most}, not {text!r}")
    return number
