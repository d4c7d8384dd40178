"""Checks that run on a node: does it have what was asked for, and does that work?

One directory with nothing but the standard library: the head node copies it as it is to every node. Parsers are pure;
only programs.py starts anything, and only gather.py looks at the machine.
"""
