"""Keep the tables of a history up to date: each update reads the new records of a log, and continues each group where it stopped."""
