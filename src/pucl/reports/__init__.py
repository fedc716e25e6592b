"""Results made visible: figures and pages, drawn from what experiments return."""
