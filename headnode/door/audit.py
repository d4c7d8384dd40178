"""Who did what to which nodes, from where, and how it ended: every write leaves a line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flask import request

from headnode.accounts import Entry
from headnode.door import state
from headnode.errors import HeadnodeError
from headnode.nodeset import fold


@dataclass
class Note:
    """What a handler adds while it works."""

    nodes: Iterable[str] = ()
    detail: str = ""
    result: str = "done"


@contextmanager
def noted(action: str, nodes: Iterable[str] = (), detail: str = "") -> Iterator[Note]:
    """One line whatever happens: done, refused with the reason, or failed."""
    note = Note(nodes, detail)
    try:
        yield note
    except HeadnodeError as error:
        write(action, Note(note.nodes, error.message, "refused"))
        raise
    except BaseException as error:
        write(action, Note(note.nodes, type(error).__name__, "failed"))
        raise
    write(action, note)


def write(action: str, note: Note) -> None:
    visitor = state.visitor()
    entry = Entry(visitor.account.name, origin(), visitor.door, action, fold(note.nodes), note.result, note.detail)
    state.context().inventory.accounts.write(entry)


def origin() -> str:
    """The address of the asker; behind the local socket there is none."""
    return request.remote_addr or "local socket"
