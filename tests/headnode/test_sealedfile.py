"""The sealed file: nothing is read without its key, and nothing is believed that was changed."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headnode import sealedfile
from headnode.errors import HeadnodeError, InvalidInput
from headnode.sealedfile import CHUNK, MAGIC, SALT, TAG, Unlocking

KEY = Unlocking(b"K", b"k" * SALT)
HEADER = len(MAGIC) + 1 + SALT


def sealed(*pieces: bytes, key: Unlocking = KEY) -> bytes:
    target = io.BytesIO()
    sealedfile.seal(iter(pieces), target, key)
    return target.getvalue()


def opened(content: bytes, key: Unlocking = KEY) -> bytes:
    return b"".join(sealedfile.unseal(io.BytesIO(content), key))


@given(st.lists(st.binary(max_size=3 * CHUNK), max_size=4))
@settings(deadline=None, max_examples=30)
def test_what_goes_in_comes_out(pieces: list[bytes]) -> None:
    assert opened(sealed(*pieces)) == b"".join(pieces)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 7])
def test_every_length_around_a_chunk(size: int) -> None:
    content = os.urandom(size)
    assert opened(sealed(content)) == content


LONG = sealed(b"secret words " * 30_000)


@given(st.integers(0, len(LONG) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=60)
def test_one_changed_bit_anywhere_is_noticed(place: int, change: int) -> None:
    changed = bytearray(LONG)
    changed[place] ^= change
    with pytest.raises(HeadnodeError):
        opened(bytes(changed))


@given(st.integers(0, len(LONG) - 1))
@settings(deadline=None, max_examples=60)
def test_a_cut_anywhere_is_noticed(length: int) -> None:
    with pytest.raises(HeadnodeError):
        opened(LONG[:length])


def test_chunks_cannot_be_left_out_exchanged_or_added() -> None:
    step = CHUNK + TAG
    chunks = [LONG[at : at + step] for at in range(HEADER, len(LONG), step)]
    assert len(chunks) > 3
    for wrong in (chunks[1:], chunks[:-1], [chunks[1], chunks[0], *chunks[2:]], [*chunks, chunks[-1]]):
        with pytest.raises(HeadnodeError):
            opened(LONG[:HEADER] + b"".join(wrong))


def test_the_same_content_is_never_the_same_file() -> None:
    assert sealed(b"x" * 100)[HEADER:] != sealed(b"x" * 100)[HEADER:]


def test_the_wrong_key_opens_nothing() -> None:
    words = Unlocking.passphrase("correct horse battery")
    content = sealed(b"secret", key=words)
    assert opened(content, words) == b"secret"
    with pytest.raises(HeadnodeError, match="the key is wrong"):
        opened(content, Unlocking.passphrase("incorrect horse battery"))
    with pytest.raises(InvalidInput, match="locked with a passphrase"):
        opened(content, KEY)


def test_keys_are_not_shown_and_weak_ones_refused(tmp_path: Path) -> None:
    assert "kkkk" not in repr(KEY)
    with pytest.raises(InvalidInput, match="fewer than 12"):
        Unlocking.passphrase("short")
    path = tmp_path / "key"
    sealedfile.create_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert opened(sealed(b"x", key=Unlocking.key_file(path)), Unlocking.key_file(path)) == b"x"
    with pytest.raises(InvalidInput, match="exists already"):
        sealedfile.create_key_file(path)
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="readable by others"):
        Unlocking.key_file(path)
    for content in (b"", b"nonsense!", b"c2hvcnQ=\n"):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(InvalidInput):
            Unlocking.key_file(tmp_path / "bad")
