"""Runs: configuration, directory, record, resume, grids, and tables of their results."""
