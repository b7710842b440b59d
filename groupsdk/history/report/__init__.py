"""Build the report: one HTML file with charts, and the numbers under each.

Fields have the names and meanings of the tables and rows (`groupsdk.history.tables.schemas`, `groupsdk.history.explain`), with these in addition: `start` and `end` are
times in UTC, None if there are no records (or, for the end of a stay, if it has not ended). `hours` is the time that the log
covers of a group. `top_cause` is the most frequent cause. `generations`, `moves`, `storms` and `problems` are counts, as are
`n_groups`, `n_generations`, `n_commits` and `left_out_stays`. `stalled_ms` is for how long partitions
made no progress, in partition-milliseconds. `x`, `y`, `width` and `height` are in pixels from the upper left corner of a picture.
"""
