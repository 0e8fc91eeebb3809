"""The operators on host arrays, of any size."""
