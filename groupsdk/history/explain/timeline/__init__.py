"""Replay the records of a group into generations, members and memberships."""
