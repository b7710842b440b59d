"""Elect a leader among processes, without topics."""

from groupsdk.election.leader_election import LeaderElection, Term


__all__ = ["LeaderElection", "Term"]
