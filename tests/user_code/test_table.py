"""Hold that every row of the table in docs/user-code.md has its test."""

from pathlib import Path

from tests.user_code import test_broker_code, test_connect_code, test_member_code


PAGE = Path(__file__).parents[2] / "docs" / "user-code.md"
TESTS = {
    "`Connector.validate`": test_connect_code.test_validate,
    "`Connector.__init__`, `plan`": test_connect_code.test_init_and_plan,
    "`run` as `def`": test_connect_code.test_run,
    "`run` as `async def`": test_connect_code.test_run,
    '`run` with `host = "process"`': test_connect_code.test_run,
    "`recipe`": test_connect_code.test_recipe,
    "the function given to `attempt`": test_connect_code.test_attempt,
    "`standby`": test_connect_code.test_standby,
    "configuration providers": test_connect_code.test_config_provider,
    "callbacks of a member": test_member_code.test_callbacks,
    "the same with asyncio, as `def` or `async def`": test_member_code.test_async_callbacks,
    "listeners of a consumer": test_member_code.test_listeners_and_assignors,
    "listeners with asyncio, as `def` or `async def`": test_member_code.test_listeners_with_asyncio,
    "assignors of a consumer": test_member_code.test_listeners_and_assignors,
    "handler and `on_error` of a `PartitionProcessor`": test_member_code.test_partition_processors,
    "handler of a `TransactionLoop`": test_member_code.test_transaction_loops,
    "token and credentials providers": test_member_code.test_providers,
    "callbacks of an election": test_member_code.test_elections,
    "assignors of the embedded broker": test_broker_code.test_assignors_of_the_coordinator,
    "`token_validator` of the embedded broker": test_broker_code.test_token_validators,
}


def test_every_row_has_its_test() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1].partition(":")[0].strip() for line in lines if line.startswith("|")]
    assert rows[2:] == list(TESTS)
