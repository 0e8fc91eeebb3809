"""Planning: a call, described, to kernels and their constants. Pure Python: no device, no array data."""
