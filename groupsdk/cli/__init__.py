"""The command `groupsdk`: one class for each of its commands."""
