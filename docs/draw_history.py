#!/usr/bin/env python
"""Draw docs/ownership.svg, and write what docs/history.md says below it: `python -m docs.draw_history TABLES`.

TABLES is what `python -m examples.history_day DIRECTORY` leaves in DIRECTORY/tables. The day is the same
each time, so that picture and numbers are as well.
"""

import sys
from datetime import datetime, timedelta
from textwrap import fill

from docs.regions import DOCS, Pages, filled
from groupsdk.history.report.data import GroupPage, ReportData, WhatIf, collect
from groupsdk.history.report.drawing import ownership
from groupsdk.history.report.page import svg_file
from groupsdk.history.report.tables import ParquetTables


GROUP = "checkout"
PICTURE = DOCS / "ownership.svg"


def collected(tables: str) -> ReportData:
    """Collect what the report would show of the group."""
    return collect(ParquetTables(tables), [GROUP])


def period(data: ReportData) -> tuple[datetime, datetime]:
    """Return the time of the group's first storm with leaving members, with a little before and after.

    Raises:
        ValueError: there is none.
    """
    margin = timedelta(seconds=10)
    for storm in data.storms:
        if storm.group_id == GROUP and "leave" in storm.causes:
            return storm.start - margin, storm.end + margin
    raise ValueError(f"{GROUP} has no storm: these are not the tables of examples.history_day")


def what_if(page: GroupPage) -> str:
    """Say in one sentence what another assignor would have made of it."""
    rows: dict[str, WhatIf] = {each.assignor: each for each in page.what_if}
    happened, best = rows["actual"], rows["cooperative-sticky"]
    # means of the same numbers, summed up in another order
    more = (best.mean_stddev or 0.0) > (happened.mean_stddev or 0.0) + 1e-9
    evenly = "less evenly" if more else "as evenly"
    text = (
        f"What if? Over the {happened.generations} generations of that day, `range` moved"
        f" {happened.moves} partitions and took {happened.revoked} from their members;"
        f" `cooperative-sticky` would have moved {best.moves} and taken {best.revoked}, {evenly}."
    )
    return fill(text, 115)


def pages(data: ReportData) -> Pages:
    """Return the picture and docs/history.md as they have to be."""
    (page,) = data.pages
    picture = ownership(page, period(data))
    assert picture is not None
    return {PICTURE: svg_file(picture), **filled("history.md", {"what-if": what_if(page)})}


if __name__ == "__main__":
    for path, text in pages(collected(sys.argv[1])).items():
        path.write_text(text, encoding="utf-8")
