"""The coordinators of groups and of transactions, as state machines without I/O."""
