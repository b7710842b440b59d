"""Ask the transaction coordinator whether a producer may write where it wants to, adding it where it may."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.server.call import Call
from groupsdk.broker.transactions.error_codes import txn_offset_commit_error
from groupsdk.broker.transactions.shard import TransactionCoordinatorShard
from groupsdk.error_code import ErrorCode


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster
    from groupsdk.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


IMPLICIT_OFFSETS: Final = 5
"""The same of TxnOffsetCommit and the partition of its group."""
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
    """Find out, partition by partition, whether a transactional write may go on.

    A transaction that is still being completed is waited for, up to a tenth of a second.

    Args:
        call: the request.
        transactional_id: whose transaction it is.
        producer: id and epoch.
        partitions: what is to be written to.
        done: takes the coordinator's own errors, NONE where the write may go on.
        add: whether the partitions become part of the transaction; else they must be it already.
    """
    cluster = call.node.cluster

    def attempt(left: int) -> None:
        outcome = _outcome(cluster, transactional_id, producer, partitions, add=add)
        if add and left and ErrorCode.CONCURRENT_TRANSACTIONS in outcome.values():
            cluster.client_scheduler.after(_RETRY_MS, lambda: attempt(left - 1))
        else:
            done(outcome)

    attempt(_RETRIES)


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
    """Find out whether offsets may be committed in a transaction; `done` takes what to answer otherwise."""
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
