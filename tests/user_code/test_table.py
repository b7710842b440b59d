"""Hold that every row of the table in docs/user-code.md has its test."""

from pathlib import Path

from tests.user_code import (
    test_broker_code,
    test_connect_code,
    test_member_code,
    test_shard_code,
)


PAGE = Path(__file__).parents[2] / "docs" / "user-code.md"
TESTS = {
    "`Connector.validate`": test_connect_code.test_misbehaving_validate_stays_within_bounds,
    "`Connector.__init__`, `plan`": test_connect_code.test_init_and_plan,
    "`run` as `def`": test_connect_code.test_misbehaving_run_stays_within_bounds,
    "`run` as `async def`": test_connect_code.test_misbehaving_run_stays_within_bounds,
    '`run` with `host = "process"`': test_connect_code.test_misbehaving_run_stays_within_bounds,
    "`recipe`": test_connect_code.test_misbehaving_recipe_stays_within_bounds,
    "the function given to `attempt`": test_connect_code.test_misbehaving_attempt_stays_within_bounds,
    "`standby`": test_connect_code.test_misbehaving_standby_stays_within_bounds,
    "configuration providers": test_connect_code.test_config_provider_that_hangs_stays_within_bounds,
    "callbacks of a member": test_member_code.test_misbehaving_callback_stays_within_bounds,
    "the same with asyncio, as `def` or `async def`": test_member_code.test_misbehaving_callback_stays_within_bounds,
    "`shards`, `on_shards_gained` and `on_shards_lost` of a shard worker": test_shard_code.test_misbehaving_shards_and_gains_stay_within_bounds,
    "`on_shards_released` of a shard worker": test_shard_code.test_misbehaving_releases_stay_within_bounds,
    "`on_standby_gained` and `on_standby_released` of a shard worker": test_shard_code.test_misbehaving_standbys_stay_within_bounds,
    "`EpochStore.advance` of a shard worker": test_shard_code.test_misbehaving_epoch_stores_stay_within_bounds,
    "listeners of a consumer": test_member_code.test_listeners_and_assignors,
    "listeners with asyncio, as `def` or `async def`": test_member_code.test_listeners_with_asyncio,
    "assignors of a consumer": test_member_code.test_listeners_and_assignors,
    "handler and `on_error` of a `PartitionProcessor`": test_member_code.test_misbehaving_partition_processor_stays_within_bounds,
    "handler of a `TransactionLoop`": test_member_code.test_misbehaving_transaction_loop_handler_stays_within_bounds,
    "token and credentials providers": test_member_code.test_misbehaving_credential_provider_stays_within_bounds,
    "callbacks of an election": test_member_code.test_misbehaving_election_callback_stays_within_bounds,
    "assignors of the embedded broker": test_broker_code.test_assignors_of_the_coordinator,
    "`token_validator` of the embedded broker": test_broker_code.test_misbehaving_token_validator_stays_within_bounds,
}


def test_every_row_has_its_test() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1].partition(":")[0].strip() for line in lines if line.startswith("|")]
    assert rows[2:] == list(TESTS)
