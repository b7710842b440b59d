"""Build the report: one HTML file with charts, and the numbers under each."""
