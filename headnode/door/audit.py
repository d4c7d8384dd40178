"""Who did what to which nodes, from where, and how it ended: every write leaves a line."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from flask import g, request
from flask.typing import ResponseReturnValue

from headnode.accounts import Entry
from headnode.door import state
from headnode.errors import HeadnodeError
from headnode.nodeset import fold

View = TypeVar("View", bound=Callable[..., ResponseReturnValue])


@dataclass
class Note:
    """What a handler adds while it works."""

    action: str
    nodes: Iterable[str] = ()
    detail: str = ""
    result: str = "done"
    written: bool = False


@contextmanager
def noted(action: str, nodes: Iterable[str] = (), detail: str = "") -> Iterator[Note]:
    """One line whatever happens: done, refused with the reason, or failed."""
    note = Note(action, nodes, detail)
    try:
        yield note
    except HeadnodeError as error:
        write(Note(note.action, note.nodes, error.message, "refused"))
        raise
    except BaseException as error:
        write(Note(note.action, note.nodes, type(error).__name__, "failed"))
        raise
    if not note.written:
        write(note)


def audited(action: str) -> Callable[[View], View]:
    """For a handler that changes something; it says with `about` which nodes."""

    def wrap(view: View) -> View:
        @wraps(view)
        def noting(*args: Any, **kwargs: Any) -> ResponseReturnValue:
            with noted(action) as g.note:
                return view(*args, **kwargs)

        return cast(View, noting)

    return wrap


def about(nodes: Iterable[str] = (), detail: str = "", *, action: str | None = None) -> None:
    """Which nodes, what exactly, and what it is called when that was not clear before."""
    g.note.nodes, g.note.detail = list(nodes), detail
    g.note.action = action or g.note.action


def result(word: str) -> None:
    g.note.result = word


def write_now(word: str) -> None:
    """Before something is begun that writes lines of its own; no other follows at the end of the request."""
    g.note.result = word
    write(g.note)
    g.note.written = True


def write(note: Note) -> None:
    visitor = state.visitor()
    entry = Entry(visitor.account.name, origin(), visitor.door, note.action, fold(note.nodes), note.result, note.detail)
    state.context().inventory.accounts.write(entry)


def origin() -> str:
    """The address of the asker; behind the local socket there is none."""
    return request.remote_addr or "local socket"
