"""Runs the command line as `python -m vkdml`."""

import sys

from vkdml.cli import main

if __name__ == "__main__":
    sys.exit(main())
