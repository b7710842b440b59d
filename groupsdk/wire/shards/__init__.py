"""What members of a group with shards say to each other, as bytes (docs/shards-format.md)."""
