"""The transaction coordinator and producer ids, as a pure state machine."""
