"""The state machine of a group member: events and the time go in, actions come out.

This package opens no sockets, starts no threads and reads no clock.
"""
