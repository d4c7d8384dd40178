"""Secrets at rest."""

from pathlib import Path

import pytest

from headnode import vault
from headnode.errors import HeadnodeError, InvalidInput


@pytest.fixture
def key(tmp_path: Path) -> Path:
    made = tmp_path / "secret.key"
    vault.create_key(made)
    return made


def test_the_key_is_for_its_owner_only_and_nothing_else_is_left(key: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in key.parent.iterdir()] == ["secret.key"]


def test_a_key_that_exists_is_kept(key: Path) -> None:
    before = key.read_bytes()
    vault.create_key(key)
    assert key.read_bytes() == before


def test_a_damaged_key_is_told_instead_of_replaced(key: Path) -> None:
    key.write_bytes(b"")
    for attempt in (lambda: vault.create_key(key), lambda: vault.seal("x", key)):
        with pytest.raises(HeadnodeError, match="damaged"):
            attempt()


def test_a_draft_left_by_an_interruption_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "secret.draft").write_bytes(b"half")
    vault.create_key(tmp_path / "secret.key")
    assert vault.unseal(vault.seal("x", tmp_path / "secret.key"), tmp_path / "secret.key") == "x"


def test_what_is_sealed_is_hidden_and_comes_back(key: Path) -> None:
    sealed = vault.seal("pässword", key)
    assert "pässword" not in sealed
    assert sealed != vault.seal("pässword", key)
    assert vault.unseal(sealed, key) == "pässword"


@pytest.mark.parametrize("sealed", ["", "nonsense", "ünicode", "gAAAAA=="])
def test_what_was_not_sealed_with_this_key_is_refused(key: Path, sealed: str) -> None:
    with pytest.raises(HeadnodeError, match="cannot be opened"):
        vault.unseal(sealed, key)


def test_a_key_that_others_can_read_is_refused(key: Path) -> None:
    key.chmod(0o640)
    with pytest.raises(HeadnodeError, match="readable by others") as caught:
        vault.seal("x", key)
    assert caught.value.hint == f"chmod 600 {key}"


def test_a_missing_key_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HeadnodeError, match="cannot be read: No such file"):
        vault.seal("x", tmp_path / "none")


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"secret\n", "secret"),
        (b"secret\r\nmore", "secret"),
        (b" a b ", " a b "),
        ("a\u2028b\x0cc\n".encode(), "a\u2028b\x0cc"),
    ],
)
def test_a_password_is_the_whole_first_line(tmp_path: Path, content: bytes, password: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    assert vault.read_password(file) == password


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\nsecret", b"\xff\xfe"])
def test_a_file_without_a_password_is_refused_without_repeating_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        vault.read_password(file)
    assert "secret" not in caught.value.message


def test_a_password_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        vault.read_password(tmp_path / "none")
