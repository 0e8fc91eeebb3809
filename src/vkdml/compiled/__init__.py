"""Operators compiled from descriptors, and recorded sequences."""
