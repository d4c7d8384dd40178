"""Everything Headnode refuses or fails at, as one small tree.

A message is one sentence for a person; a hint is what to do next. The command line prints both and
never a traceback: a traceback is a bug in Headnode, these are facts about the site.
"""

import re
from pathlib import PurePath

# In the address of a database or a proxy; whatever is wrong with it, that part is nobody's to read.
PASSWORD_IN_URL = re.compile(r"(//[^/@:]*:).*@", re.DOTALL)


class HeadnodeError(Exception):
    """Something could not be done; the exit code is 1."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInput(HeadnodeError):
    """What was asked makes no sense here; nothing was changed, and the exit code is 2."""

    exit_code = 2


class InvalidField(InvalidInput):
    """One field has a wrong value: the sentence names the field, the value and what would be right."""

    def __init__(self, field: str, value: object, expected: str, *, where: str = "", hint: str = "") -> None:
        self.field = field
        self.value = value
        self.expected = expected
        self.where = where
        prefix = f"{where}: " if where else ""
        super().__init__(f"{prefix}{field} is {shown(value)}; {expected}", hint=hint)


class InvalidSite(InvalidInput):
    """site.yaml has problems; the message holds one sentence for each."""

    def __init__(self, problems: list[str], *, hint: str = "") -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = problems


class Taken(InvalidInput):
    """A name, MAC or address already belongs to another node."""


class NotFound(InvalidInput):
    """No such node, profile, file or group."""


class LayoutRefused(HeadnodeError):
    """A disk layout does not fit this machine without guessing or destroying; nothing was touched."""


class PublishFailed(HeadnodeError):
    """A publish was rolled back: what was live before is still live."""


class TemplateFault(HeadnodeError):
    """A template could not be rendered; the message names template, line and variable."""


class ProgramFailed(HeadnodeError):
    """A program exited with an error; the message ends with its own words."""

    def __init__(self, message: str, *, returncode: int, stderr: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.returncode = returncode
        self.stderr = stderr


class ProgramMissing(HeadnodeError):
    """A program that is needed is not installed."""

    def __init__(self, program: str) -> None:
        super().__init__(f"the program '{program}' is not installed", hint="install it, or let 'make lab' do so")
        self.program = program


def shown(value: object, limit: int = 80) -> str:
    """The value as it can safely stand in a message: quoted, one line, bounded, control characters visible,
    passwords not."""
    text = str(value) if isinstance(value, str | PurePath) else repr(value)
    text = PASSWORD_IN_URL.sub(r"\1…@", text)
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return f"'{escaped}'"


def counted(number: int, noun: str) -> str:
    """1 node, 2 nodes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
