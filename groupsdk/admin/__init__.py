"""Look at the groups of a cluster and change them from outside, as an administrator: nothing here joins a group."""
