"""Who may stay on the page: what happens to a visit when the users or groups change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

import pytest
from page_site import PageSite

from gateway.login import user_file
from gateway.login.authenticator import Checked
from gateway.login.group_file import GroupFile
from gateway.login.groups import UserGroups
from gateway.login.user_file import UserFile
from gateway.page.page_logins import PageLogins
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.clients.handover import Logins

HASHES = {name: user_file.hash_of(name[::-1]) for name in ("ada", "bob")}
OTHER = user_file.hash_of("another")


def users(**hashes: str) -> str:
    return "".join(f"{name}:{text}\n" for name, text in hashes.items())


def write(path: Path, text: str) -> None:
    user_file.write(path, text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    write(path, users(**HASHES))
    return path


def checked(path: Path) -> Checked:
    return Checked([UserFile(path)], 0.0, 8)


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (lambda: users(**HASHES, carol=OTHER), True),
        (lambda: users(bob=OTHER, ada=HASHES["ada"]), True),
        (lambda: users(bob=HASHES["bob"]), False),
        (lambda: users(**{**HASHES, "ada": OTHER}), False),
        (lambda: users(**HASHES) + users(ada=HASHES["ada"]), False),
        (lambda: "", False),
    ],
    ids=["a user more", "another's password", "removed", "a new password", "twice", "empty"],
)
async def test_a_visit_ends_when_its_login_would_not_pass_any_more(
    file: Path, change: Callable[[], str], stays: bool
) -> None:
    page = PageSite(authenticator=checked(file))
    browser = await page.browser("ada")
    write(file, change())
    answer = await browser.get("/")
    assert answer.status == (HTTPStatus.OK if stays else HTTPStatus.SEE_OTHER)
    if not stays:
        write(file, users(**HASHES))
        assert (await browser.get("/")).status == HTTPStatus.SEE_OTHER, "the visit is over for good"


async def test_no_button_works_once_the_user_is_gone(file: Path) -> None:
    page = PageSite(authenticator=checked(file))
    page.site.table("s.sales")
    await page.site.view("s.daily", "SELECT n FROM s.sales")
    browser = await page.browser("ada")
    token = (await browser.get("/")).token
    write(file, users(bob=HASHES["bob"]))
    answer = await browser.post("/do/refresh", {"token": token, "database": "s", "name": "daily"})
    assert answer.status == HTTPStatus.FORBIDDEN
    assert page.queue.begun == []


async def test_while_the_users_cannot_be_read_nothing_is_shown_and_nobody_is_logged_out(file: Path) -> None:
    page = PageSite(authenticator=checked(file))
    browser = await page.browser("ada")
    held = file.with_name("held")
    os.rename(file, held)
    answer = await browser.get("/")
    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert str(file) not in answer.text
    os.rename(held, file)
    assert (await browser.get("/")).status == HTTPStatus.OK


async def test_groups_count_as_at_sql_and_change_during_a_visit(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("admins: ada\n")
    page = PageSite(groups=UserGroups([GroupFile(groups)]), administrators=["group:admins"])
    page.site.table("s.sales")
    await page.site.view("s.daily", "SELECT n FROM s.sales WHERE secret_word = 1", owner="bob")
    browser = await page.browser("ada")
    assert "secret_word" in (await browser.get("/views/s/daily")).text
    groups.write_text("admins: carol\n")
    assert "secret_word" not in (await browser.get("/views/s/daily")).text


@pytest.mark.parametrize(
    ("proxies", "headers", "seen"),
    [
        ((), (), "10.0.0.9:1234"),
        ((), ("6.6.6.6",), "10.0.0.9:1234"),
        (("10.0.0.9",), ("6.6.6.6",), "6.6.6.6"),
        (("10.0.0.9",), ("1.1.1.1", "6.6.6.6"), "6.6.6.6"),
        (("10.0.0.9",), ("1.1.1.1, 6.6.6.6",), "6.6.6.6"),
        (("10.0.0.9",), ("nonsense",), "10.0.0.9:1234"),
    ],
)
async def test_logins_count_for_the_address_that_a_trusted_proxy_names(
    file: Path, proxies: Sequence[str], headers: Sequence[str], seen: str
) -> None:
    page = PageSite()
    logins = PageLogins(Logins(None, checked(file)), page.site.service.audit, TrustedProxies(proxies))  # type: ignore[arg-type]
    assert logins.peer(("10.0.0.9", 1234), headers) == seen


async def test_guessing_from_one_address_does_not_slow_another_one_down(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator = checked(file)
    turned: list[str] = []
    monkeypatch.setattr(authenticator._turns, "refused", turned.append)
    page = PageSite(authenticator=authenticator)
    browser = await page.browser()
    await browser.post("/login", {"user": "ada", "password": "wrong"})
    assert turned == ["127.0.0.1"]
