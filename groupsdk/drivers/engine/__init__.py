"""Run a member on an event loop that belongs to nobody else."""
