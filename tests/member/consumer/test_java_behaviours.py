"""Each behaviour that Apache Kafka 4.3.1 tests of its member of the consumer protocol, beside our test of the same.

The keys are the names of the tests in Kafka's `ConsumerMembershipManagerTest`, `ConsumerHeartbeatRequestManagerTest` and
`CommitRequestManagerTest`. A value is the place and name of our test, or after "--" why there is nothing to test here.
"""

import ast
from pathlib import Path
from typing import Final

from tests.support.cases import each_case


_PLACES: Final = {
    "membership": "tests/member/consumer/test_membership.py",
    "machine": "tests/member/consumer/test_machine.py",
    "reconciliation": "tests/member/consumer/test_reconciliation.py",
    "owned": "tests/member/consumer/test_owned_partitions.py",
    "subscription": "tests/member/consumer/test_subscription_changes.py",
    "fields": "tests/member/consumer/test_heartbeat_fields.py",
    "pace": "tests/member/consumer/test_broker_pace.py",
    "replies": "tests/member/consumer/test_replies.py",
    "requests": "tests/member/consumer/test_caller_requests.py",
    "names": "tests/member/consumer/test_topic_names.py",
    "hostile": "tests/member/consumer/test_hostile_answers.py",
    "consumer": "tests/consumer/test_broker_assigned.py",
    "commits": "tests/consumer/test_commits.py",
    "calls": "tests/consumer/test_calls.py",
    "offsets": "tests/consumer/test_start_offsets.py",
    "session": "tests/consumer/test_session.py",
}
_METRICS: Final = "machine: test_metrics_are_those_of_javas_new_consumer"
_DELAYED: Final = "membership: test_fencing_when_state_is_reconciling_gives_the_reconciliation_up"
_FENCED: Final = "membership: test_member_id_and_epoch_reset_on_fenced_members"
_FATAL: Final = "membership: test_listeners_get_notified_on_transitions_to_fatal"
_STALE: Final = "membership: test_heartbeat_sent_on_stale_member"
_PASSES: Final = (
    "-- the caller gives up and takes within one call, so there is no moment between the two"
)
_NO_FETCH: Final = (
    "-- the caller's thread alone reads, so nothing is fetched while its listener runs"
)
_INTERCEPTORS: Final = "-- there are no interceptors"
_LOG: Final = "-- a text for the log of Java's class"

MEMBERSHIP: Final[dict[str, str]] = {
    "testAddedPartitionsNotEnabledAfterFailedOnPartitionsAssignedCallback": (
        "membership: test_a_listener_that_raises_is_handed_the_same_assignment_again"
    ),
    "testAddedPartitionsTemporarilyDisabledAwaitingOnPartitionsAssignedCallback": _NO_FETCH,
    "testAssignedPartitionCountMetricRegistered": _METRICS,
    "testDelayedMetadataUsedToCompleteAssignment": (
        "membership: test_member_keeps_unresolved_assignment_waiting_for_metadata_until_resolved"
    ),
    "testDelayedReconciliationResultAppliedWhenTargetChangedWithMetadataUpdate": (
        "membership: test_member_keeps_unresolved_assignment_waiting_for_metadata_until_resolved"
    ),
    "testDelayedReconciliationResultAppliedWhenTargetChangedWithNewAssignment": (
        "membership: test_new_assignment_replaces_the_one_that_is_being_taken_up"
    ),
    "testDelayedReconciliationResultDiscardedAfterCommitIfMemberRejoins": _DELAYED,
    "testDelayedReconciliationResultDiscardedAfterPartitionsAssignedCallbackIfMemberRejoins": _DELAYED,
    "testDelayedReconciliationResultDiscardedAfterPartitionsRevokedCallbackIfMemberRejoins": _DELAYED,
    "testDelayedReconciliationResultDiscardedIfMemberNotInReconcilingStateAnymore": _DELAYED,
    "testFatalFailureWhenMemberAlreadyLeft": (
        "membership: test_leave_group_when_the_member_is_out_already_says_nothing"
    ),
    "testFatalFailureWhenStateIsLeaving": (
        "membership: test_leave_group_sends_the_leave_though_a_heartbeat_is_in_flight"
    ),
    "testFatalFailureWhenStateIsPrepareLeaving": "-- a leave is one step: no answer comes within it",
    "testFatalFailureWhenStateIsStable": _FATAL,
    "testFatalFailureWhenStateIsUnjoined": _FATAL,
    "testFencedWhenAssignmentEmpty": (
        "membership: test_fenced_member_that_has_nothing_joins_without_its_caller"
    ),
    "testFencingWhenStateIsLeaving": (
        "membership: test_leave_group_sends_the_leave_though_a_heartbeat_is_in_flight"
    ),
    "testFencingWhenStateIsPrepareLeaving": "-- a leave is one step: no answer comes within it",
    "testFencingWhenStateIsPrepareLeavingCompletesTheLeaveOperation": (
        "-- a leave is one step: no answer comes within it"
    ),
    "testFencingWhenStateIsReconciling": _DELAYED,
    "testFencingWhenStateIsStable": _FENCED,
    "testHeartbeatFailedResponseWhenLeavingGroupCompletesLeave": (
        "hostile: test_whatever_a_leave_is_answered_with_the_member_is_out"
    ),
    "testHeartbeatSuccessfulResponseWhenLeavingGroupCompletesLeave": (
        "membership: test_a_join_waits_for_the_answer_to_the_leave_before"
    ),
    "testIgnoreHeartbeatResponseWhenNotInGroup": (
        "hostile: test_answers_to_requests_of_a_membership_that_is_over_are_ignored"
    ),
    "testIgnoreLeaveResponseWhenNotLeavingGroup": (
        "hostile: test_an_epoch_of_a_leave_in_answer_to_a_heartbeat_is_refused"
    ),
    "testLeaveGroupDuringReconciliationThenRejoin": (
        "membership: test_a_member_that_left_joins_again_at_the_next_poll"
    ),
    "testLeaveGroupEpoch": "membership: test_leave_group_epoch",
    "testLeaveGroupEpochOnClose": "membership: test_leave_group_epoch",
    "testLeaveGroupWhenMemberAlreadyLeaving": (
        "membership: test_leave_group_when_the_member_is_out_already_says_nothing"
    ),
    "testLeaveGroupWhenMemberAlreadyLeft": (
        "membership: test_leave_group_when_the_member_is_out_already_says_nothing"
    ),
    "testLeaveGroupWhenMemberFenced": (
        "membership: test_leave_group_when_the_member_is_out_already_says_nothing"
    ),
    "testLeaveGroupWhenMemberIsStale": (
        "hostile: test_a_member_whose_caller_was_away_leaves_without_another_word"
    ),
    "testLeaveGroupWhenMemberOwnsAssignment": (
        "consumer: test_leaving_revokes_what_is_held_and_loses_what_is_not"
    ),
    "testLeaveGroupWhenStateIsStable": "membership: test_leave_group_epoch",
    "testListenerCallbacksBasic": (
        "consumer: test_moved_partitions_are_committed_and_revoked_before_new_ones_are_taken"
    ),
    "testListenerCallbacksThrowsErrorOnPartitionsAssigned": (
        "consumer: test_exception_of_a_listener_is_raised_and_the_second_delivery_only_acknowledges"
    ),
    "testListenerCallbacksThrowsErrorOnPartitionsRevoked": (
        "consumer: test_exception_of_a_listener_is_raised_and_the_second_delivery_only_acknowledges"
    ),
    "testListenersGetNotifiedOfMemberEpochUpdatesOnlyIfItChanges": (
        "consumer: test_an_epoch_that_comes_without_an_assignment_is_told_once"
    ),
    "testListenersGetNotifiedOnTransitionsToFatal": _FATAL,
    "testListenersGetNotifiedOnTransitionsToLeavingGroup": "membership: test_leave_group_epoch",
    "testMemberIdAndEpochResetOnFencedMembers": _FENCED,
    "testMemberJoiningCallsRebalanceListenerWhenReceivingEmptyAssignment": (
        "membership: test_a_new_member_with_nothing_assigned_takes_that_up_too"
    ),
    "testMemberJoiningTransitionsToStableWhenReceivingEmptyAssignment": (
        "membership: test_a_new_member_with_nothing_assigned_takes_that_up_too"
    ),
    "testMemberKeepsUnresolvedAssignmentWaitingForMetadataUntilResolved": (
        "membership: test_member_keeps_unresolved_assignment_waiting_for_metadata_until_resolved"
    ),
    "testMembershipManagerInitSupportsEmptyGroupInstanceId": "membership: test_leave_group_epoch",
    "testMembershipManagerRackId": (
        "machine: test_first_heartbeat_includes_required_info_to_join_group_and_get_assignments"
    ),
    "testMembershipManagerServerAssignor": (
        "machine: test_first_heartbeat_includes_required_info_to_join_group_and_get_assignments"
    ),
    "testMetadataUpdatesReconcilesUnresolvedAssignments": (
        "membership: test_member_keeps_unresolved_assignment_waiting_for_metadata_until_resolved"
    ),
    "testMetadataUpdatesRequestsAnotherUpdateIfNeeded": (
        "membership: test_names_that_are_missing_are_asked_for_with_a_backoff"
    ),
    "testMetricsWhenHeartbeatFailed": _METRICS,
    "testNewAssignmentIgnoredWhenStateIsPrepareLeaving": (
        "hostile: test_answers_to_requests_of_a_membership_that_is_over_are_ignored"
    ),
    "testNewAssignmentNotInMetadataReplacesPreviousOneWaitingOnMetadata": (
        "membership: test_new_assignment_replaces_previous_one_waiting_on_metadata"
    ),
    "testNewAssignmentReplacesPreviousOneWaitingOnMetadata": (
        "membership: test_new_assignment_replaces_previous_one_waiting_on_metadata"
    ),
    "testNewEmptyAssignmentReplacesPreviousOneWaitingOnMetadata": (
        "hostile: test_an_empty_assignment_replaces_one_that_waits_for_names"
    ),
    "testOnPartitionsLostError": "membership: test_a_listener_that_raises_on_fatal_does_not_hide_the_error",
    "testOnPartitionsLostNoError": "consumer: test_a_loss_is_told_once_and_nothing_is_committed",
    "testOnSubscriptionUpdatedDoesNotTransitionToJoiningIfInGroup": (
        "membership: test_subscription_changes_are_told_at_once_and_only_they"
    ),
    "testOnSubscriptionUpdatedTransitionsToJoiningOnPollIfNotInGroup": (
        "membership: test_new_member_joins_as_soon_as_the_caller_polls_with_a_subscription"
    ),
    "testPollMustCallsMaybeReconcileWithFalse": (
        "-- nothing is reconciled in the background: all of it is done within the caller's poll"
    ),
    "testRebalanceMetricsForMultipleReconciliations": _METRICS,
    "testRebalanceMetricsOnFailedRebalance": _METRICS,
    "testRebalanceMetricsOnSuccessfulRebalance": _METRICS,
    "testReconcileNewPartitionsAssignedAndRevoked": (
        "membership: test_reconcile_then_acknowledge_then_stable"
    ),
    "testReconcileNewPartitionsAssignedWhenNoPartitionOwned": (
        "membership: test_reconcile_then_acknowledge_then_stable"
    ),
    "testReconcileNewPartitionsAssignedWhenOtherPartitionsOwned": (
        "membership: test_reconcile_then_acknowledge_then_stable"
    ),
    "testReconcilePartitionsRevokedNoAutoCommitNoCallbacks": (
        "membership: test_reconcile_then_acknowledge_then_stable"
    ),
    "testReconcilePartitionsRevokedWithFailedAutoCommitCompletesRevocationAnyway": (
        "session: test_a_failed_commit_before_revocation_is_logged_and_holds_nothing_up"
    ),
    "testReconcilePartitionsRevokedWithSuccessfulAutoCommitNoCallbacks": (
        "consumer: test_moved_partitions_are_committed_and_revoked_before_new_ones_are_taken"
    ),
    "testReconciliationSkippedWhenSameAssignmentReceived": (
        "reconciliation: test_a_target_told_twice_is_one_target"
    ),
    "testReconcilingWhenReceivingAssignmentFoundInMetadata": (
        "membership: test_transition_to_reconciling_only_if_assignment_received"
    ),
    "testRevokePartitionsUsesTopicNamesLocalCacheWhenMetadataNotAvailable": (
        "names: test_names_of_topics_that_nobody_needs_are_forgotten"
    ),
    "testSameAssignmentReconciledAgainWhenFenced": (
        "membership: test_same_assignment_reconciled_again_when_fenced"
    ),
    "testSameAssignmentReconciledAgainWithMissingTopic": (
        "owned: test_a_withdrawn_part_that_was_never_taken_is_acknowledged_while_names_are_missing"
    ),
    "testStaleMemberDoesNotSendHeartbeatAndAllowsTransitionToJoiningToRecover": _STALE,
    "testStaleMemberRejoinsWhenTimerResetsNoCallbacks": (
        "membership: test_stale_member_rejoins_when_timer_resets_after_its_caller_heard_of_the_loss"
    ),
    "testStaleMemberWaitsForCallbackToRejoinWhenTimerReset": (
        "membership: test_stale_member_rejoins_when_timer_resets_after_its_caller_heard_of_the_loss"
    ),
    "testTransitionToFailedWhenTryingToJoin": "machine: test_unknown_error_codes_are_fatal",
    "testTransitionToFatal": _FATAL,
    "testTransitionToFatalMarksPendingRevocationBeforeSignalingPartitionsLost": _NO_FETCH,
    "testTransitionToFencedMarksPendingRevocationBeforeSignalingPartitionsLost": _NO_FETCH,
    "testTransitionToLeavingWhileAcknowledgingDueToStaleMember": (
        "hostile: test_the_caller_may_be_away_in_every_state"
    ),
    "testTransitionToLeavingWhileJoiningDueToStaleMember": (
        "hostile: test_the_caller_may_be_away_in_every_state"
    ),
    "testTransitionToLeavingWhileReconcilingDueToStaleMember": (
        "hostile: test_the_caller_may_be_away_in_every_state"
    ),
    "testTransitionToLeavingWhileStableDueToStaleMember": _STALE,
    "testTransitionToReconcilingIfEmptyAssignmentReceived": (
        "membership: test_a_new_member_with_nothing_assigned_takes_that_up_too"
    ),
    "testTransitionToStaleMarksPendingRevocationBeforeSignalingPartitionsLost": _NO_FETCH,
    "testUnresolvedTargetAssignmentIsReconciledWhenMetadataReceived": (
        "membership: test_member_keeps_unresolved_assignment_waiting_for_metadata_until_resolved"
    ),
    "testUpdateStateFailsOnResponsesWithErrors": "-- a check of Java's own arguments",
}

HEARTBEATS: Final[dict[str, str]] = {
    "testConsumerAcksReconciledAssignmentAfterAckLost": "machine: test_network_failure_resends_all_fields",
    "testDisconnect": "machine: test_network_failure_resends_all_fields",
    "testFailureOnFatalException": _FATAL,
    "testFencedMemberStopHeartbeatUntilItReleasesAssignmentToRejoin": _FENCED,
    "testFirstHeartbeatIncludesRequiredInfoToJoinGroupAndGetAssignments": (
        "machine: test_first_heartbeat_includes_required_info_to_join_group_and_get_assignments"
    ),
    "testGroupIdNotFoundExceptionWhileUnsubscribed": (
        "hostile: test_whatever_a_leave_is_answered_with_the_member_is_out"
    ),
    "testGroupIdNotFoundWhileStableIsFatal": (
        "membership: test_a_join_to_a_group_of_another_type_is_told_and_repeated_with_backoff"
    ),
    "testHeartBeatRequestStateToStringBase": _LOG,
    "testHeartbeatNotSentIfAnotherOneInFlight": (
        "machine: test_heartbeat_not_sent_if_another_one_in_flight"
    ),
    "testHeartbeatOnStartup": (
        "membership: test_new_member_joins_as_soon_as_the_caller_polls_with_a_subscription"
    ),
    "testHeartbeatOutsideInterval": "machine: test_heartbeats_come_at_the_interval_of_the_last_answer",
    "testHeartbeatRequestFailureNotifiedToGroupManagerAfterErrorPropagated": (
        "machine: test_a_broker_without_the_protocol_is_named_with_what_to_do"
    ),
    "testHeartbeatResponseErrorNotifiedToGroupManagerAfterErrorPropagated": _FATAL,
    "testHeartbeatResponseOnErrorHandling": (
        "replies: test_codes_that_are_not_in_the_table_go_by_what_kafka_calls_them"
    ),
    "testHeartbeatState": "machine: test_heartbeat_state_sends_only_what_has_changed",
    "testMaximumTimeToWaitWhenHeartbeatShouldBeSkipped": _STALE,
    "testNetworkTimeout": "machine: test_a_silent_coordinator_is_given_up_after_the_session",
    "testNoCoordinator": (
        "machine: test_coordinator_moved_is_looked_up_and_told_everything_at_once"
    ),
    "testPollOnCloseGeneratesRequestIfNeeded": "membership: test_leave_group_epoch",
    "testPollOnLeaving": (
        "membership: test_leave_group_sends_the_leave_though_a_heartbeat_is_in_flight"
    ),
    "testPollTimerExpiration": _STALE,
    "testPollTimerExpirationShouldNotMarkMemberStaleIfMemberAlreadyLeaving": (
        "machine: test_close_does_not_wait_beyond_its_timeout"
    ),
    "testRackIdInHeartbeatLifecycle": "machine: test_heartbeat_state_sends_only_what_has_changed",
    "testRegexInHeartbeatLifecycle": "fields: test_a_pattern_is_taken_back_by_an_empty_one",
    "testRegexInJoiningHeartbeat": "fields: test_a_pattern_alone_joins_with_an_empty_list_of_names",
    "testSendingLeaveGroupHeartbeatWhenPreviousOneInFlight": (
        "membership: test_leave_group_sends_the_leave_though_a_heartbeat_is_in_flight"
    ),
    "testSkippingHeartbeat": _STALE,
    "testSuccessfulHeartbeatTiming": "machine: test_heartbeats_come_at_the_interval_of_the_last_answer",
    "testTimerNotDue": "machine: test_heartbeats_come_at_the_interval_of_the_last_answer",
    "testUnsupportedVersionFromBroker": _FATAL,
    "testUnsupportedVersionFromClient": (
        "machine: test_a_broker_without_the_protocol_is_named_with_what_to_do"
    ),
    "testValidateConsumerGroupHeartbeatRequest": (
        "machine: test_heartbeat_state_sends_only_what_has_changed"
    ),
    "testValidateConsumerGroupHeartbeatRequestAssignmentSentWhenLocalEpochChanges": (
        "reconciliation: test_a_target_that_comes_back_is_handed_over_again"
    ),
    "testisExpiredByUsedForLogging": _LOG,
}

COMMITS: Final[dict[str, str]] = {
    "testAsyncAutocommitNotRetriedAfterException": (
        "session: test_an_auto_commit_that_fails_is_made_again_at_the_next_interval"
    ),
    "testAsyncCommitWhileCoordinatorUnknownIsSentOutWhenCoordinatorDiscovered": (
        "commits: test_a_coordinator_that_moved_is_found_and_asked_again"
    ),
    "testAutoCommitAsyncFailsWithStaleMemberEpochContinuesToCommitOnTheInterval": (
        "session: test_an_auto_commit_that_fails_is_made_again_at_the_next_interval"
    ),
    "testAutoCommitBeforeRevocationNotBlockedByAutoCommitOnIntervalInflightRequest": (
        "session: test_a_failed_commit_before_revocation_is_logged_and_holds_nothing_up"
    ),
    "testAutoCommitEmptyDoesNotLeaveInflightRequestFlagOn": "-- nothing is asked where there is nothing to commit",
    "testAutoCommitEmptyOffsetsDoesNotGenerateRequest": "-- nothing is asked where there is nothing to commit",
    "testAutoCommitOnIntervalSkippedIfPreviousOneInFlight": (
        "commits: test_a_commit_that_failed_is_not_made_again_after_a_newer_one"
    ),
    "testAutoCommitSyncBeforeRevocationRetriesOnRetriableAndStaleEpoch": (
        "requests: test_a_commit_carries_the_epoch_of_the_moment_of_sending"
    ),
    "testAutocommitEnsureOnlyOneInflightRequest": (
        "commits: test_a_commit_that_failed_is_not_made_again_after_a_newer_one"
    ),
    "testAutocommitInterceptorsInvoked": _INTERCEPTORS,
    "testAutocommitInterceptorsNotInvokedOnError": _INTERCEPTORS,
    "testCommitAsync": "commits: test_in_the_background_a_callback_tells_how_it_ended",
    "testCommitAsyncFailsWithRetriableOnCoordinatorDisconnected": (
        "commits: test_a_broken_connection_is_repeated_until_time_is_over"
    ),
    "testCommitAsyncWithEmptyOffsets": "-- nothing is asked where there is nothing to commit",
    "testCommitSync": "commits: test_a_commit_carries_generation_and_member",
    "testCommitSyncFailsWithCommitFailedExceptionIfUnknownMemberId": (
        "commits: test_a_commit_that_is_refused_makes_the_member_join_again"
    ),
    "testCommitSyncFailsWithCommitFailedExceptionOnStaleMemberEpoch": (
        "requests: test_a_refused_commit_is_told_and_a_heartbeat_asks_what_became_of_the_member"
    ),
    "testCommitSyncRetriedAfterExpectedRetriableException": "commits: test_commit_is_retried_after_a_passing_error",
    "testCommitSyncShouldSucceedWithTopicId": "-- offsets are committed by the names of topics",
    "testCommitSyncShouldSucceedWithUnknownOffsetAndMetadata": "commits: test_commit_is_retried_after_a_passing_error",
    "testCommitSyncWithEmptyOffsets": "-- nothing is asked where there is nothing to commit",
    "testEnsureBackoffRetryOnOffsetCommitRequestTimeout": (
        "commits: test_a_broken_connection_is_repeated_until_time_is_over"
    ),
    "testEnsureCommitSensorRecordsMetric": _METRICS,
    "testFetchOffsetsWithTopicIdsDoesNotFailOnUnsubscribedTopics": (
        "-- offsets are fetched by the names of topics"
    ),
    "testLastEpochSentOnCommit": (
        "requests: test_a_commit_carries_the_epoch_of_the_moment_of_sending"
    ),
    "testOffsetCommitAsyncFailedWithRetriableThrowsRetriableCommitException": (
        "commits: test_in_the_background_it_is_given_up_at_some_point"
    ),
    "testOffsetCommitRequestErroredRequestsNotRetriedForAsyncCommit": (
        "commits: test_in_the_background_what_passes_is_repeated_unless_it_is_out_of_date"
    ),
    "testOffsetCommitSingleFailedAttemptPerRequestWhenPartitionErrors": (
        "commits: test_the_gravest_error_is_the_one_that_is_raised"
    ),
    "testOffsetCommitSyncFailedWithRetriableThrowsTimeoutWhenRetryTimeExpires": (
        "calls: test_the_last_error_is_raised_when_the_time_is_over"
    ),
    "testOffsetCommitSyncTimeoutNotReturnedOnPollAndFails": "calls: test_silence_is_a_timeout",
    "testOffsetFetchMarksCoordinatorUnknownOnCoordinatorDisconnectedAndRetries": (
        "offsets: test_a_fetch_that_fails_by_something_passing_is_repeated"
    ),
    "testOffsetFetchMarksCoordinatorUnknownOnRetriableCoordinatorErrors": (
        "requests: test_a_commit_that_finds_another_coordinator_has_it_looked_up"
    ),
    "testOffsetFetchRequestEnsureDuplicatedRequestSucceed": "-- the caller asks for one answer at a time",
    "testOffsetFetchRequestErroredRequests": (
        "offsets: test_a_fetch_that_fails_by_something_passing_is_repeated"
    ),
    "testOffsetFetchRequestPartitionDataError": "offsets: test_a_fetch_that_is_forbidden_is_raised",
    "testOffsetFetchRequestShouldSucceedWithTopicId": "-- offsets are fetched by the names of topics",
    "testOffsetFetchRequestStateToStringBase": _LOG,
    "testOffsetFetchRequestTimeoutRequests": "calls: test_silence_is_a_timeout",
    "testPollEnsureAutocommitSent": (
        "session: test_an_auto_commit_that_fails_is_made_again_at_the_next_interval"
    ),
    "testPollEnsureCorrectInflightRequestBufferSize": "-- the caller asks for one answer at a time",
    "testPollEnsureEmptyPendingRequestAfterPoll": "-- requests are sent at once, and none are kept",
    "testPollEnsureManualCommitSent": "commits: test_a_commit_carries_generation_and_member",
    "testPollSkipIfCoordinatorUnknown": (
        "requests: test_without_a_coordinator_and_after_the_close_requests_are_refused"
    ),
    "testPollWithClosingAndPendingRequests": (
        "requests: test_without_a_coordinator_and_after_the_close_requests_are_refused"
    ),
    "testPollWithFatalErrorDuringCoordinatorIsEmptyAndClosing": (
        "requests: test_without_a_coordinator_and_after_the_close_requests_are_refused"
    ),
    "testPollWithFatalErrorShouldFailAllUnsentRequests": (
        "requests: test_without_a_coordinator_and_after_the_close_requests_are_refused"
    ),
    "testSignalClose": (
        "commits: test_a_commit_that_was_to_be_repeated_has_failed_once_the_consumer_is_closed"
    ),
    "testSuccessfulOffsetFetch": "requests: test_a_fetch_of_offsets_carries_member_id_and_epoch",
    "testSyncOffsetFetchFailsWithStaleEpochAndNotRetriedIfMemberNotInGroupAnymore": (
        "offsets: test_an_offset_that_was_asked_for_before_a_rebalance_is_void"
    ),
    "testSyncOffsetFetchFailsWithStaleEpochAndRetriesWithNewEpoch": (
        "requests: test_a_fetch_of_offsets_carries_member_id_and_epoch"
    ),
}


@each_case("table", (MEMBERSHIP, HEARTBEATS, COMMITS))
def test_each_of_javas_behaviours_has_a_test_that_exists_or_a_reason(table: dict[str, str]) -> None:
    root = Path(__file__).parents[3]
    missing = {}
    for behaviour, ours in table.items():
        if ours.startswith("-- "):
            continue
        place, _, name = ours.partition(": ")
        tree = ast.parse((root / _PLACES[place]).read_text())
        if name not in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}:
            missing[behaviour] = ours
    assert not missing


def test_no_behaviour_is_listed_under_a_name_that_java_does_not_use() -> None:
    """Kafka 4.3.1 has so many tests of the three classes; a later release may have more."""
    assert (len(MEMBERSHIP), len(HEARTBEATS), len(COMMITS)) == (88, 34, 50)
