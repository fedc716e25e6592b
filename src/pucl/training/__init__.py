"""How encoders are trained: one plain loop, optimisers, checkpoints."""
