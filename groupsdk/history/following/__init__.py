"""Keep the tables of a history up to date: each update takes what is new of a log, and walks on where it stopped."""
