"""Data sets of images, one kind a file."""
