"""The transaction coordinator and the allocation of producer ids, as a state machine without I/O."""
