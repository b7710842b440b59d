"""The group coordinator: groups, members and offsets, as a pure state machine."""
