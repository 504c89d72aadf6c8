"""Tests a company's own verifier: a package with an entry point, as it is installed beside the gateway."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import settings_file
from gateway.config import ConfigError
from gateway.errors import FreshgateError, LoginDenied, LoginUnchecked
from gateway.login import methods
from gateway.login.methods import Checking
from gateway.wire.sasl import Login

DOCUMENTED = Path(__file__).parents[2] / "docs/how-to/login.md"
OTHERS = """
class NoGroups:
    def verify(self, user, password): ...

class Odd:
    def verify(self, user, password):
        return {"none": None, "true": True, "false": False, "text": "analysts", "numbers": [1]}[user]

    def groups(self, user):
        return self.verify(user, "")

not_a_class = 5
"""


def documented() -> str:
    """The example of the documentation."""
    text = DOCUMENTED.read_text(encoding="utf-8")
    begin = text.index("```python\n", text.index("## Your own verifier")) + len("```python\n")
    return text[begin : text.index("```", begin)]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package: its module, and what pip writes beside it."""
    (tmp_path / "acme_login.py").write_text(documented() + OTHERS, encoding="utf-8")
    info = tmp_path / "acme_login-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-login\nVersion: 1.0\n")
    names = {"acme": "AcmeVerifier", "half": "NoGroups", "odd": "Odd", "five": "not_a_class", "lost": "Nothing"}
    lines = [f"{name} = acme_login:{attribute}" for name, attribute in names.items()]
    (info / "entry_points.txt").write_text("\n".join(["[freshgate.verifiers]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("acme_login", None)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "acme-users"
    path.write_text("ada:right:analysts,staff\neve:other:\n")
    return path


def checking(*settings: str) -> Checking:
    return methods.of(settings_file.load(None, ["authentication=custom", *settings]))


def login(found: Checking, user: str, password: str) -> Login:
    return asyncio.run(found.authenticator.check(Login(user, password, "PLAIN")))


def test_the_documented_verifier_checks_logins_and_finds_groups(
    package: Path, users: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "REFUSAL_SECONDS", 0.0)
    acme = ["authentication.verifier=acme", f"authentication.verifier_options=path={users}"]
    found = checking(*acme, "groups.sources=custom")
    assert login(found, "ada", "right").groups == {"analysts", "staff"}
    assert asyncio.run(found.groups.of("ada")) == {"analysts", "staff"}
    assert asyncio.run(found.groups.of("zoe")) == set()
    for user, password in (("ada", "oops"), ("zoe", "right")):
        with pytest.raises(LoginDenied, match=f"User '{user}' cannot log in"):
            login(found, user, password)
    assert "refused: wrong user or password" in caplog.text
    users.unlink()
    with pytest.raises(LoginUnchecked):
        login(found, "ada", "right")
    assert "FileNotFoundError" in caplog.text


def test_only_what_the_interface_says_lets_a_user_in(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "REFUSAL_SECONDS", 0.0)
    found = checking("authentication.verifier=odd")
    assert login(found, "none", "x").user == "none"
    for user in ("true", "false", "text", "numbers", "missing"):
        with pytest.raises(LoginUnchecked):
            login(found, user, "x")


@pytest.mark.parametrize(
    ("verifier", "said"),
    [
        ("none", r"There is no verifier 'none': .* installed are acme, five, half, lost, odd\. Install"),
        ("half", r"\(acme_login:NoGroups\) has no method groups"),
        ("five", "cannot be made: TypeError"),
        ("lost", "cannot be made: AttributeError"),
        ("acme", "cannot be made: TypeError.*path"),
    ],
)
def test_a_verifier_that_cannot_be_made_is_an_error_at_the_start(package: Path, verifier: str, said: str) -> None:
    with pytest.raises(FreshgateError, match=said):
        checking(f"authentication.verifier={verifier}")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["authentication=custom"], "authentication.method is custom, but authentication.verifier is empty"),
        (["groups.sources=custom"], "groups.sources names custom, but authentication.verifier is empty"),
        (["groups.sources=ldap"], "groups.sources names ldap, but ldap.url is empty"),
        (["groups.sources=ldap", "ldap.url=ldap://x"], "but ldap.bind_dn is empty, and nobody else binds"),
        (["authentication.verifier_options=url"], "must have the form NAME=VALUE"),
        (["authentication=file,none"], "must be one of none, file"),
        (["authentication="], "must be one of none, file"),
        (["groups.sources=nis"], "must name only file, ldap, custom"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings_file.load(None, given)


def test_several_methods_are_asked_in_their_order(tmp_path: Path, package: Path, users: Path) -> None:
    """A user of the file, and one of the verifier."""
    (tmp_path / "users").write_text("svc:$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$dGhpc2lzaXQ\n")
    given = ["authentication.verifier=acme", f"authentication.verifier_options=path={users}"]
    settings = settings_file.load(
        None, ["authentication=custom, file", f"authentication.users_file={tmp_path / 'users'}", *given]
    )
    assert settings.authentication.methods == ("custom", "file")
    assert login(methods.of(settings), "ada", "right").groups == {"analysts", "staff"}


def test_the_example_says_what_pip_needs() -> None:
    text = textwrap.dedent(DOCUMENTED.read_text(encoding="utf-8"))
    assert '[project.entry-points."freshgate.verifiers"]\nacme = "acme_login:AcmeVerifier"' in text
