import pytest

from ipmi.passwords import CAPITALS, DIGITS, LETTERS, MARKS, is_vendor_default, new_password


@pytest.mark.parametrize(
    ("user", "password"), [("ADMIN", "ADMIN"), ("root", "calvin"), ("x", ""), ("ops", "OPS"), ("root", "0penBmc")]
)
def test_vendor_defaults_are_known(user: str, password: str) -> None:
    assert is_vendor_default(user, password)


def test_new_passwords_fit_every_bmc() -> None:
    made = {new_password() for _ in range(200)}
    assert len(made) == 200
    for password in made:
        assert len(password) == 16
        assert all(set(password) & set(kind) for kind in (LETTERS, CAPITALS, DIGITS, MARKS))
        assert password[0].isalpha()
        assert not is_vendor_default("admin", password)
