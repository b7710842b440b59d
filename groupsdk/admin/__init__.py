"""Administer the groups of a cluster: list, describe and change them without joining."""
