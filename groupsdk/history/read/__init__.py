"""Read record batches and committed offsets a column at a time, with numpy and pyarrow and without Spark."""
