"""Make the tables of the history: one step from DataFrame to DataFrame after the other."""
