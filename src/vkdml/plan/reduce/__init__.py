"""Planning argmin and argmax: which kernel reads a reduction, and how its work is divided."""
