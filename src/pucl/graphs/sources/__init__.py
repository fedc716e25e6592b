"""Data sets of graphs, one kind a file."""
