"""The experiments of the paper: tables, ablations and theory. Only their commands import this package."""
