"""The operators: on host arrays of any size, on arrays on a device, and on shards."""
