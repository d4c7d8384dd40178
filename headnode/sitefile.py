"""Read site.yaml so that every problem can say its file, line, field, value and what would be right."""

import difflib
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from headnode import sitechecks
from headnode.errors import InvalidSite, shown
from headnode.site import Site
from headnode.sitetext import read

Place = tuple[str | int, ...]
Lines = dict[Place, int]
Loader = yaml.BaseLoader | yaml.SafeLoader

# Far above any real site, and low enough that a file of nested aliases cannot eat the memory.
MOST_VALUES = 200_000
MOST_BYTES = 4 * 1024 * 1024


def load(path: Path) -> Site:
    return parse(read(path), str(path))


def parse(text: bytes, name: str) -> Site:
    data, lines = read_yaml(text, name)
    try:
        site = Site.model_validate(data)
    except ValidationError as error:
        raise InvalidSite([sentence(name, lines, data, dict(item)) for item in error.errors()]) from None
    found = [
        f"{name}:{line_of(lines, problem.path)}: {dotted(problem.path)} "
        + (f"is {shown(str(problem.value))}; {problem.expected}" if problem.value != "" else problem.expected)
        for problem in sitechecks.problems(site)
    ]
    if found:
        raise InvalidSite(found)
    return site


class WrittenFloat(float):
    """A number that remembers how it was written: for a release, 24.10 is not 24.1."""

    written = ""


def read_yaml(text: bytes, name: str, *, texts: bool = False) -> tuple[Any, Lines]:
    """The file's data and the line of every key and item in it; with `texts`, every value as it is written.

    YAML would take the MAC 52:54:00:10:00:01 for a number to the base of 60, and position 010 for eight.
    """
    if len(text) > MOST_BYTES:
        raise InvalidSite([f"{name}:1: the file is {len(text)} bytes; a site file is at most {MOST_BYTES}"])
    loader: Loader | None = None
    try:
        loader = yaml.BaseLoader(text) if texts else yaml.SafeLoader(text)
        root = loader.get_single_node()
        lines: Lines = {(): 1}
        return (construct(loader, root, (), lines, name) if root is not None else {}), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InvalidSite([f"{name}:{line}: this is not YAML: {error.problem or error.context}"]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        raise InvalidSite([f"{name}:1: this is not YAML text: {why}"]) from None
    except RecursionError:
        raise InvalidSite([f"{name}:1: the file is nested too deeply"]) from None
    except (ValueError, OverflowError) as error:
        raise InvalidSite([f"{name}:1: a value cannot be read: {error}"]) from None
    finally:
        if loader is not None:
            loader.dispose()


def construct(loader: Loader, node: yaml.Node, at: Place, lines: Lines, name: str) -> Any:
    if len(lines) > MOST_VALUES:
        raise InvalidSite([f"{name}:{node.start_mark.line + 1}: the file has more than {MOST_VALUES} values"])
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [construct(loader, item, (*at, i), lines, name) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return construct_mapping(loader, node, at, lines, name)
    return construct_scalar(loader, node, at, name)


def construct_scalar(loader: Loader, node: yaml.Node, at: Place, name: str) -> Any:
    try:
        value = loader.construct_object(node)
    except (ValueError, OverflowError) as error:
        line = node.start_mark.line + 1
        problem = f"{name}:{line}: {dotted(at)} is {shown(node.value)}; put it in quotes to use it as text ({error})"
        raise InvalidSite([problem]) from None
    if isinstance(value, float):
        value = WrittenFloat(value)
        value.written = str(node.value)
    return value


def construct_mapping(loader: Loader, node: yaml.MappingNode, at: Place, lines: Lines, name: str) -> Any:
    result: dict[Any, Any] = {}
    for key, (key_node, value_node) in merged(node, at, name, {}).items():
        lines[(*at, key)] = key_node.start_mark.line + 1
        result[key] = construct(loader, value_node, (*at, key), lines, name)
    return result


Pairs = dict[str, tuple[yaml.Node, yaml.Node]]


def merged(node: yaml.MappingNode, at: Place, name: str, done: dict[int, Pairs]) -> Pairs:
    """The keys of a mapping and of those it merges in with `<<`; what it says itself wins.

    PyYAML copies what is merged, so that a few lines of merges of merges would fill the memory; this does not.
    """
    if id(node) in done:
        return done[id(node)]
    own: Pairs = {}
    inherited: Pairs = {}
    times = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise InvalidSite([f"{name}:{line}: a key must be a plain word"])
        key = str(key_node.value)
        if times[key] > 1:
            raise InvalidSite([f"{name}:{line}: {dotted((*at, key))} is given twice; keep one"])
        if key != "<<":
            own[key] = (key_node, value_node)
            continue
        listed = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
        for other in reversed(listed):
            if not isinstance(other, yaml.MappingNode):
                raise InvalidSite([f"{name}:{line}: '<<' takes in a block of keys and values, and nothing else"])
            inherited.update(merged(other, at, name, done))
    done[id(node)] = {**inherited, **own}
    return done[id(node)]


def sentence(name: str, lines: Lines, data: Any, error: dict[str, Any]) -> str:
    """One pydantic error as one sentence in our words."""
    path: Place = tuple(part for part in error["loc"] if part != "[key]")
    where = f"{name}:{line_of(lines, path)}: {dotted(path)}"
    kind = error["type"]
    if kind == "missing":
        return f"{where} is missing; {description(path)}"
    if kind == "extra_forbidden":
        return f"{where} is not a known key; {known_keys(path)}"
    return f"{where} is {shown(error.get('input'))}; {advice(error)}"


def advice(error: dict[str, Any]) -> str:
    limits = error.get("ctx") or {}
    kind = str(error["type"])
    if kind == "value_error":
        return str(limits.get("error", error["msg"]))
    if kind in ("literal_error", "enum"):
        return f"use {limits.get('expected')}"
    if kind.startswith("string_pattern"):
        return shape(str(limits.get("pattern")))
    if kind == "string_type":
        return "use text (put it in quotes if YAML reads it as something else)"
    if kind.startswith(("int", "greater", "less")):
        return "use a whole number" + bounds(limits)
    if kind.startswith("ip_v4_address"):
        return "use an IPv4 address, such as 10.20.0.1"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return "use a block of keys and values here"
    if kind in ("tuple_type", "list_type"):
        return "use a list, such as [a, b]"
    if kind.startswith("bool"):
        return "use true or false"
    return str(error["msg"])


def shape(pattern: str) -> str:
    """What a pattern asks for, in words."""
    if "ecdsa" in pattern:
        return "use one line of a public key file, such as ssh-ed25519 AAAA… ada@example"
    return "use a size such as 512M, 1.5T, 20% or rest" if "rest" in pattern else "use a size such as 512M or 1.5T"


def bounds(limits: dict[str, Any]) -> str:
    for key, words in (("ge", "of at least"), ("le", "of at most"), ("gt", "above"), ("lt", "below")):
        if key in limits:
            return f" {words} {limits[key]}"
    return ""


def known_keys(path: Place) -> str:
    known = sorted(fields_at(path[:-1]))
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    listed = f"known here are {', '.join(known)}"
    return f"did you mean '{close[0]}'? ({listed})" if close else listed


def fields_at(path: Place) -> dict[str, Any]:
    """The fields of the block at this place of the file, found by walking the types."""
    model: Any = Site
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            info = model.model_fields.get(str(part))
            model = info.annotation if info else None
        else:
            model = inner(model)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return dict(model.model_fields)
    return {}


def inner(annotation: Any) -> Any:
    """The type of the values of a dict or tuple."""
    arguments = [argument for argument in getattr(annotation, "__args__", ()) if argument is not Ellipsis]
    return arguments[-1] if arguments else None


def description(path: Place) -> str:
    info = fields_at(path[:-1]).get(str(path[-1])) if path else None
    return f"it is needed: {info.description}" if info is not None and info.description else "it is needed"


def line_of(lines: Lines, path: Place) -> int:
    """The line of a place in the file, or of the nearest block around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def dotted(path: Place) -> str:
    text = ""
    for part in path:
        # A key is the writer's own word, and may hold what must not reach a terminal.
        text += f"[{part}]" if isinstance(part, int) else f".{shown(part)[1:-1]}"
    return text.lstrip(".") or "the file"
