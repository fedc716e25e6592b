"""What things cost in time and memory: instruments that know nothing of losses, and one file for each subject."""
