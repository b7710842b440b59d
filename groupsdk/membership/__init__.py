"""Decide what a member of a group does next: events and the time go in, actions come out.

Nothing in here opens a socket, starts a thread or reads a clock.
"""
