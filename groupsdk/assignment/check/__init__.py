"""Check any assignor against the contract, with random groups, including hostile ones."""

from groupsdk.assignment.check.check import AssignorCheckError, check_assignor


__all__ = ["AssignorCheckError", "check_assignor"]
