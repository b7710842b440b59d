"""Record batches: their header, their records, control records, checksums and compression."""
