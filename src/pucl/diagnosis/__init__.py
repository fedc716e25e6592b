"""How many of the unlabelled samples are hidden positives, and which."""
