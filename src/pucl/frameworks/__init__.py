"""Where anchors, positives and unlabelled samples come from."""
