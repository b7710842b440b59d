"""Drive a member from a thread of the caller."""
