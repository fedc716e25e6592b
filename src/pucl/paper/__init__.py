"""The experiments of the paper: tables, ablations and theory. Nothing but the commands imports it."""
