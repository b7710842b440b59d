"""A live page of groups, members, lag and rebalances, for a browser: `groupsdk watch --web`."""
