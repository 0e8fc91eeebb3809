"""Devices, their memory, and running plans on them. Only this folder uses the native module."""
