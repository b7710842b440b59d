"""Hold anybody's assignor to the contract, with random groups, hostile ones among them."""

from groupsdk.assignor_check.check import AssignorCheckError, check_assignor


__all__ = ["AssignorCheckError", "check_assignor"]
