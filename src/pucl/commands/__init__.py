"""What the command line offers, one command a file: its arguments, and what it prints."""
