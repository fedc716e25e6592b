"""What pucl tries out and measures, one experiment a file."""
