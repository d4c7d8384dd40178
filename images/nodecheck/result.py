"""One check's outcome, as data."""

from typing import Any

Check = dict[str, Any]


def check(name: str, ok: bool, message: str, **data: Any) -> Check:
    """`data` holds numbers and words that are compared across the nodes of a profile."""
    return {"name": name, "ok": ok, "message": message, **({"data": data} if data else {})}


def number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
