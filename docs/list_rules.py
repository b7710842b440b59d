#!/usr/bin/env python
"""List the rules of the verdict, from the code: `python -m docs.list_rules`."""

from docs.regions import Pages, filled, table, write
from groupsdk.verdict import RULES


def pages() -> Pages:
    """Return what docs/verdict.md has to hold."""
    rows = [
        (f"`{rule.name}`", rule.severity.value, rule.sees, rule.costs, rule.advises)
        for rule in RULES.values()
    ]
    head = ("Rule", "At worst", "Sees", "Costs", "Advises")
    return filled("verdict.md", {"rules": table(head, rows)})


if __name__ == "__main__":
    write(pages)
