"""site.yaml for people who look at it from afar: the text, its problems, and a picture of the networks."""

import re
from collections.abc import Sequence

from headnode import sitefile, sitetext
from headnode.errors import HeadnodeError, InvalidSite
from headnode.workflows.context import Context
from headnode.workflows.fit import misfits

# A password in the address of a database is nobody's to read.
PASSWORD = re.compile(r"(://[^/@:\s]*:)[^@\s]*@")


def shown_text(context: Context) -> str:
    return PASSWORD.sub(r"\1…@", context.site_text.decode(errors="replace"))


def problems(context: Context, text: str) -> Sequence[str]:
    """Everything that is wrong with a text as site.yaml, also beside the nodes that are enrolled."""
    try:
        found = sitefile.parse(text.encode(), "site.yaml")
    except InvalidSite as error:
        return error.problems
    except HeadnodeError as error:
        return error.message.splitlines()
    return list(misfits(found, context.inventory.nodes()))


def saved_problems(context: Context) -> Sequence[str]:
    """What is wrong with the file as it is on disk now; the one that is in force was right."""
    try:
        text = sitetext.read(context.paths.site_file)
    except HeadnodeError as error:
        return error.message.splitlines()
    return [] if text == context.site_text else problems(context, text.decode(errors="replace"))
