"""Draw the report: one HTML file with pictures, and the numbers under each."""
