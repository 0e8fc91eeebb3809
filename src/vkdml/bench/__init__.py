"""Benchmarks: cases, timing by the device's clock, checks of every timed result, peers, tables and plots."""
