"""Passwords inside web addresses, http://user:password@proxy and the like: nobody's to read on a page or in an answer.

What nodes are given keeps them, and so does what root asks for on the head node.
"""

import re

# As far as the address reaches. It ends at a quote and at a backslash, so that this is also right within JSON.
PASSWORD = re.compile(r"""(://[^/@:\s"'\\<>]*:)([^/\s"'\\<>]*)@""")
# The address of a database may have anything in its password, and nothing else in site.yaml looks like one.
WIDE = re.compile(r"(://[^/@:\s]*:)\S*@")


def hidden(text: str) -> str:
    return PASSWORD.sub(r"\1…@", text) if "://" in text else text


def hidden_in_file(text: str, site_text: str) -> str:
    """Some programs want addresses without http://, which is what shows an address: so by the passwords themselves."""
    for _, password in PASSWORD.findall(site_text):
        text = text.replace(f":{password}@", ":…@")
    return hidden(text)


def hidden_in_site(text: str) -> str:
    return WIDE.sub(r"\1…@", text)
