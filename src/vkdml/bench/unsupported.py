"""What a benchmark cannot time with a library."""


class Unsupported(Exception):
    """The library does not do this; the message says what, in a few words."""
