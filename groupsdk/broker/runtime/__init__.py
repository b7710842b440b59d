"""What runs the coordinators' state machines: records to the log, replies to the clients, one timer."""
