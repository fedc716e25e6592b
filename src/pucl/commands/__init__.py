"""The commands, one a file: arguments, help text and output."""
