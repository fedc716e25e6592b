"""The measurement: what false negatives cost, and how much each correction brings back."""
