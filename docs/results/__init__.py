"""The pages that show results, one file for each subject; see `build.py`."""
