"""The histories of many clusters: one run over all of them, and what stands still where."""
