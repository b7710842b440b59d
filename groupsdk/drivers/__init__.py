"""Carry out what the membership decides: connections, threads, processes, and calls into user code."""
