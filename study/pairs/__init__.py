"""The measurement on real pairs: what known positives, corrections and oracles are worth in retrieval."""
