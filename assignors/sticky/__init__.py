"""Kafka's sticky assignor, made exact: as fair as can be, and as few moves as that takes."""

from assignors.sticky.assignor import StickyAssignor


__all__ = ["StickyAssignor"]
