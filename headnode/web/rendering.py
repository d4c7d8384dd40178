"""What templates may use: times in words, the version of our files, who is looking."""

import hashlib
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from flask import Flask, make_response, render_template, request
from jinja2 import StrictUndefined
from markupsafe import Markup
from werkzeug.wrappers import Response as WerkzeugResponse

from headnode import __version__
from headnode.door import state
from headnode.errors import counted
from headnode.hiding import hidden
from headnode.nodeset import fold

NOTHING = "\N{EN DASH}"
STATIC = Path(__file__).parent / "static"
# Address, name, and the key that goes there after g.
PAGES = (
    ("/", "Cluster", "c"),
    ("/nodes", "Nodes", "n"),
    ("/racks", "Racks", "r"),
    ("/enrol", "Enrol", "e"),
    ("/images", "Images", "i"),
    ("/people", "People", "p"),
    ("/site", "Site", "s"),
    ("/audit", "Audit", "a"),
)


def install(app: Flask) -> None:
    app.jinja_env.undefined = StrictUndefined
    # Whatever a page says goes through this, so that no template can forget it.
    app.jinja_env.finalize = without_passwords
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(ago=ago, moment=moment, size=size, fold=fold, pretty=pretty)
    app.jinja_env.globals.update(counted=counted, may=state.may, asset=asset, has_asset=has_asset, version=__version__)
    app.context_processor(surroundings)


def surroundings() -> dict[str, Any]:
    return {
        "visitor": state.maybe_visitor(),
        "cluster": state.door().context.site.cluster,
        "pages": PAGES,
        "here": "/" + request.path.split("/")[1],
    }


def without_passwords(value: Any) -> Any:
    """Text that is markup already was made here, from parts that came this way."""
    return hidden(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page(name: str, **values: Any) -> WerkzeugResponse:
    """A page or a part of one, with a tag that lets a reader who has it already keep it."""
    answer = make_response(render_template(name, **values))
    answer.set_etag(hashlib.sha256(answer.get_data()).hexdigest()[:32], weak=True)
    return answer.make_conditional(request)


@cache
def asset(name: str) -> str:
    """The address of a file of ours; it changes with the file, so that browsers may keep it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def has_asset(name: str) -> bool:
    return (STATIC / name).is_file()


def ago(at: datetime | None, now: datetime | None = None) -> Markup:
    """'3 min ago' with the exact time on hover; the browser keeps it true."""
    if at is None:
        return Markup("<span>{}</span>").format(NOTHING)
    exact = at.astimezone(UTC).isoformat(timespec="seconds")
    words = relative((at - (now or datetime.now(UTC))).total_seconds())
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(exact, moment(at), words)


def relative(seconds: float) -> str:
    size = abs(seconds)
    for limit, unit, length in ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (float("inf"), "d", 86_400)):
        if size < limit:
            words = f"{int(size // length)} {unit}"
            break
    if size < 5:
        return "just now"
    return f"in {words}" if seconds > 0 else f"{words} ago"


def moment(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else ""


def size(number: float | None) -> str:
    if number is None:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if number >= 10 or unit == "B" else f"{number:.1f} {unit}"


def pretty(value: Any) -> str:
    """A setting as a person would write it."""
    if value is None or value in ([], ()):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return json.dumps(value) if isinstance(value, dict) else str(value)
