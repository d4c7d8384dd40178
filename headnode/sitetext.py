"""site.yaml as it is written, for whoever need not understand it: that takes longer than listing a thousand nodes."""

from pathlib import Path

from headnode.errors import HeadnodeError


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise HeadnodeError(f"there is no site file {path}", hint="run 'headnode init' first") from None
    except OSError as error:
        raise HeadnodeError(f"the site file {path} cannot be read: {error.strerror}") from error


def may_name_database(text: bytes) -> bool:
    """False only where there is no such key for sure: neither the word nor anything that could spell it otherwise."""
    return any(word in text for word in (b"database", b"\\", b"\0"))
