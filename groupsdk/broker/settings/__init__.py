"""The settings of a broker, its topics and its groups: declared once, in `table`."""
