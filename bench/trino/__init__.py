"""Stage 1 in this process and on Trino, over the same objects."""
