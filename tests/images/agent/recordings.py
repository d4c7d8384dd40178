"""Outputs of programs on real and emulated machines."""

from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()
