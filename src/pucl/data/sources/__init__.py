"""Where pictures come from: one kind a file."""
