"""site.yaml for people who look at it from afar: the text, its problems, and a picture of the networks."""

from collections.abc import Sequence

from headnode import sitefile, sitetext
from headnode.errors import HeadnodeError, InvalidSite
from headnode.hiding import hidden_in_file, hidden_in_site
from headnode.workflows.context import Context
from headnode.workflows.fit import misfits


def shown_text(context: Context) -> str:
    return hidden_in_site(context.site_text.decode(errors="replace"))


def shown_file(context: Context, content: bytes) -> str:
    """A file made from site.yaml, as somebody may see it who looks from afar."""
    return hidden_in_file(content.decode(errors="replace"), context.site_text.decode(errors="replace"))


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
