"""Telling people: the only module that posts webhooks and sends mail."""

import json
import smtplib
import urllib.error
import urllib.request
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headnode.errors import HeadnodeError

TIMEOUT = 15.0


def address_in(file: Path) -> str:
    """The web address on the first line of a file. It is a secret, so no message repeats it."""
    try:
        address = file.read_text().partition("\n")[0].strip()
        found = urlsplit(address)
        whole = found.scheme in ("http", "https") and found.hostname and (found.port or 1) > 0
    except OSError as error:
        raise HeadnodeError(f"notify.webhook_file is {file}, which cannot be read: {error.strerror}") from error
    except ValueError:
        whole = False
    if not whole or not address.isascii() or not address.isprintable() or " " in address:
        raise HeadnodeError(
            f"the first line of {file} is not a web address", hint="use one such as https://hooks.example.org/abc"
        )
    return address


def post(address_file: Path, document: dict[str, Any]) -> None:
    """Post JSON to the address in a file."""
    request = urllib.request.Request(  # noqa: S310 - only web addresses come from there
        address_in(address_file), data=json.dumps(document).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):  # noqa: S310 - as above
            pass
    except urllib.error.HTTPError as error:
        # It is the answer too, and holds the connection.
        error.close()
        raise HeadnodeError(f"the webhook answers {error.code}") from error
    except OSError as error:
        raise HeadnodeError(f"the webhook cannot be reached: {getattr(error, 'reason', error)}") from error


def mail(server: str, sender: str, to: Sequence[str], subject: str, text: str) -> None:
    message = EmailMessage()
    # A header is one line, whatever an event says.
    message["Subject"] = " ".join(subject.split())[:200]
    message["From"], message["To"] = sender, ", ".join(to)
    message.set_content(text)
    host, _, port = server.partition(":")
    try:
        with smtplib.SMTP(host, int(port or 25), timeout=TIMEOUT) as connection:
            connection.send_message(message)
    except (OSError, ValueError, smtplib.SMTPException) as error:
        raise HeadnodeError(f"mail cannot be sent through {server}: {error}") from error
