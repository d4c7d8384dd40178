"""What the admin hands over: rows of a CSV or YAML file, or one command line, as plain texts by column.

A row may stand for many nodes (`gpu[01-16]`): its MACs, BMCs, addresses and positions are then lists of the same
length. Nothing is judged here but the form; headnode/workflows/enroll.py judges the values.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headnode import nodeset
from headnode.errors import InvalidField, InvalidInput, shown
from headnode.site import Site

COLUMNS = ("name", "mac", "bmc", "profile", "rack", "position", "address", "groups", "bmc_mac")
# One value for each name; the other columns hold for all names of a row.
EACH = ("mac", "bmc", "address", "position")
MOST_ROWS = 100_000


@dataclass(frozen=True)
class Row:
    """One node as it was asked for: column → text, only for columns that say something."""

    where: str
    values: Mapping[str, str]


def read(text: str, name: str, site: Site) -> list[Row]:
    """Rows of a CSV or YAML file; which of the two is told by the file's name, or else by how it begins."""
    if name.endswith((".yaml", ".yml")) or (not name.endswith(".csv") and looks_like_yaml(text)):
        return read_yaml(text, name, site)
    return read_csv(text, name, site)


def looks_like_yaml(text: str) -> bool:
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return first.startswith(("- ", "-\n", "nodes:", "---", "[")) or first.strip() == "-"


def read_csv(text: str, name: str, site: Site) -> list[Row]:
    lines = csv_lines(text, name)
    if not lines:
        raise InvalidInput(f"{name} is empty; it needs a header such as {','.join(COLUMNS[:6])}")
    where, header = lines[0]
    check_columns([cell.strip().lower() for cell in header], where, site)
    return bounded([row for where, values in csv_rows(lines) for row in expand(values, where)], name)


def csv_lines(text: str, name: str) -> list[tuple[str, list[str]]]:
    """Lines that say something, each with its place in the words of messages."""
    text = text.removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter(text), strict=True)
    try:
        return [(f"{name}, line {reader.line_num}", cells) for cells in reader if says_something(cells)]
    except csv.Error as error:
        raise InvalidInput(f"{name}, line {reader.line_num}: this is not CSV: {shown(str(error))}") from None


def csv_rows(lines: Sequence[tuple[str, list[str]]]) -> Iterator[tuple[str, dict[str, str]]]:
    """What stands below the header, by column."""
    header = [cell.strip().lower() for cell in lines[0][1]]
    for where, cells in lines[1:]:
        if len(cells) > len(header):
            raise InvalidInput(f"{where}: {len(cells)} values for {len(header)} columns; remove what is too many")
        yield where, dict(zip(header, cells, strict=False))


def delimiter(text: str) -> str:
    """Spreadsheets in many languages write semicolons for commas; no column's name has any of these in it."""
    header = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return max(",;\t", key=header.count)


def says_something(cells: list[str]) -> bool:
    return any(cell.strip() for cell in cells) and not cells[0].startswith("#")


def read_yaml(text: str, name: str, site: Site) -> list[Row]:
    """A list of mappings, or the same below the key `nodes`."""
    from headnode.sitefile import read_yaml as parse

    data, lines = parse(text.encode(), name, texts=True)
    at: tuple[str | int, ...] = ()
    if isinstance(data, dict) and set(data) == {"nodes"}:
        data, at = data["nodes"], ("nodes",)
    if not isinstance(data, list):
        raise InvalidInput(f"{name} must be a list of nodes, such as '- {{name: gpu01, mac: 52:54:00:aa:00:01}}'")
    rows: list[Row] = []
    for index, item in enumerate(data):
        where = f"{name}, line {lines.get((*at, index), 1)}"
        if not isinstance(item, dict):
            raise InvalidInput(f"{where}: {shown(item)} is not a node; use keys and values, such as name: gpu01")
        check_columns([str(key) for key in item], where, site, all_needed=False)
        rows += expand({str(key): cell(value) for key, value in item.items()}, where)
    return bounded(rows, name)


def cell(value: Any) -> str:
    """A YAML value as the text a CSV cell would hold."""
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return "" if value is None else str(value)


def check_columns(header: Iterable[str], where: str, site: Site, *, all_needed: bool = True) -> None:
    names = list(header)
    known = [*COLUMNS, *nic_columns(site)]
    for column in names:
        if column not in known:
            hint = "a password never stands in a file like this: use --bmc-password-file" if "pass" in column else ""
            raise InvalidInput(f"{where}: {shown(column)} is not a known column; use {', '.join(known)}", hint=hint)
        if names.count(column) > 1:
            raise InvalidInput(f"{where}: the column '{column}' is there twice; keep one")
    if all_needed and "name" not in names:
        raise InvalidInput(f"{where}: the column 'name' is missing; start with {','.join(COLUMNS[:6])}")


def nic_columns(site: Site) -> dict[str, str]:
    """Column → network, for NICs on networks other than the one it boots from: `storage_mac`."""
    return {f"{name}_mac": name for name in site.networks if name not in ("provision", "management")}


def expand(values: Mapping[str, str], where: str) -> list[Row]:
    """One row for each name."""
    given = {column: text.strip(" ") for column, text in values.items() if text.strip(" ")}
    if "name" not in given:
        return [Row(where, given)]
    if not set("[,@&!^*?") & set(given["name"]):
        return [Row(where, given)]
    names = nodeset.expand_in_order(given["name"], field="name", where=where)
    if not names:
        raise InvalidField("name", given["name"], "that names no node; use a form such as gpu[01-16]", where=where)
    lists = {column: each(given, column, names, where) for column in given if column in EACH or column.endswith("_mac")}
    return [
        Row(where, {**given, "name": name, **{column: values[index] for column, values in lists.items()}})
        for index, name in enumerate(names)
    ]


def each(given: Mapping[str, str], column: str, names: list[str], where: str) -> list[str]:
    text = given[column]
    if not text.isprintable():
        raise InvalidField(column, text, "control characters and line breaks are not allowed", where=where)
    values = nodeset.expand_in_order(text, field=column, where=where) if "[" in text else text.split(" ")
    values = [value for value in values if value]
    if len(values) != len(names):
        expected = f"use as many as there are names: {len(names)}, not {len(values)}"
        raise InvalidField(column, text, expected, where=where)
    return values


def bounded(rows: list[Row], name: str) -> list[Row]:
    if len(rows) > MOST_ROWS:
        raise InvalidInput(f"{name} has {len(rows)} nodes; at most {MOST_ROWS} at once")
    if not rows:
        raise InvalidInput(f"{name} has no nodes in it; add a line for each node")
    return rows


def decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
