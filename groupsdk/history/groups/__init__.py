"""Follow groups through their records, generation by generation; plain Python, without Spark."""
