"""Verify with the transaction coordinator that a producer may write to partitions, or add them to its transaction."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.offsets.commit_validation import txn_offset_commit_error
from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.coordinator.transactions.shard import TransactionCoordinatorShard
from groupsdk.broker.server.call import Call
from groupsdk.error_code import ErrorCode


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster
    from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest


IMPLICIT_OFFSETS: Final = 5
"""The first version of TxnOffsetCommit that adds the group's partition to the transaction by itself (KIP-890)."""
_RETRY_MS: Final = 20
_RETRIES: Final = 5

Partitions = frozenset[tuple[str, int]]
Outcome = dict[tuple[str, int], ErrorCode]


def check(
    call: Call,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Partitions,
    done: Callable[[Outcome], None],
    *,
    add: bool,
) -> None:
    """Check for each partition whether a transactional write may proceed.

    `done` gets the coordinator's errors, at once or later. With `add` the partitions are added to the transaction,
    else they must be part of it. While an earlier transaction is being completed, the check is repeated for up to a
    tenth of a second.
    """
    cluster = call.node.cluster
    ask = partial(_outcome, cluster, transactional_id, producer, partitions, add=add)
    _attempt(cluster, ask, done, _RETRIES if add else 0)


# not within `check`: a function that names itself is a cycle, which would keep the request and its records
def _attempt(
    cluster: "Cluster", ask: Callable[[], Outcome], done: Callable[[Outcome], None], left: int
) -> None:
    outcome = ask()
    if left and ErrorCode.CONCURRENT_TRANSACTIONS in outcome.values():
        cluster.client_scheduler.after(_RETRY_MS, partial(_attempt, cluster, ask, done, left - 1))
    else:
        done(outcome)


def _outcome(
    cluster: "Cluster",
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Partitions,
    *,
    add: bool,
) -> Outcome:
    coordinators = cluster.transactions
    partition = coordinators.partition_for(transactional_id)
    leader = cluster.leader(coordinators.topic, partition)
    runtime = (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
        if leader is None
        else coordinators.runtime_at(leader, partition)
    )
    if not isinstance(runtime, CoordinatorRuntime):
        return dict.fromkeys(partitions, runtime)
    shard = runtime.shard
    assert isinstance(shard, TransactionCoordinatorShard)
    if not add:
        return shard.verify(transactional_id, *producer, partitions)
    added = shard.add_partitions(transactional_id, *producer, partitions, now_ms=cluster.now_ms())
    if added.error is ErrorCode.NONE and not runtime.apply(added.result):
        return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return dict.fromkeys(partitions, added.error)


def check_offsets(
    call: Call,
    request: "TxnOffsetCommitRequest",
    partition: int,
    done: Callable[[ErrorCode], None],
) -> None:
    """Check whether offsets may be committed in a transaction; `done` gets the error or NONE, at once or later."""
    add = call.version >= IMPLICIT_OFFSETS
    cluster = call.node.cluster
    if not add and not cluster.config.transaction_partition_verification_enable:
        done(ErrorCode.NONE)
        return
    place = (OFFSETS_TOPIC, partition)
    check(
        call,
        request.transactional_id,
        (request.producer_id, request.producer_epoch),
        frozenset({place}),
        lambda outcome: done(txn_offset_commit_error(outcome[place], call.version)),
        add=add,
    )
