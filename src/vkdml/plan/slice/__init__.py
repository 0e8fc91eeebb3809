"""Planning slice1: which kernel copies a window, and how its work is divided."""
