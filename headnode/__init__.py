"""Headnode turns one Linux machine into the head node of a GPU cluster."""

__version__ = "0.1.0"
