"""Run a member on an event loop of its own."""
