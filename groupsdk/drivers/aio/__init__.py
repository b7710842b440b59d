"""Drive a member from the caller's asyncio loop; the heartbeat does not run on it."""
