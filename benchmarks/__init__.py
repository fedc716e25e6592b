"""Benchmarks of pucl: what losses, training, evaluation and grids cost. ``python -m benchmarks --help`` lists them.

They are run from a checkout and are no part of the installed package.
"""
