"""The runtime of the coordinators' state machines: it appends their records, sends their replies, runs their timer."""
