"""The NVIDIA stack of a machine: its GPUs and what is wanted become packages, settings and checks, with reasons.

Pure: rules.yaml holds what is known and where it is written down, solve.py draws the conclusions.
"""
