"""Small helpers that all other folders use."""
