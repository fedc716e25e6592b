"""The mathematics: pairs to comparisons, comparisons to averages, averages to losses. Needs torch alone."""
