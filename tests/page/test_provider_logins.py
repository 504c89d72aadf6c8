"""Logins to the page at an identity provider, right and wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from identity_provider import CLIENT, SECRET, SIGNING, SIGNING_KEY, IdentityProvider
from joserfc.jwk import RSAKey
from page_site import HOST, Answer, Browser, PageSite
from processes import wait_until

from gateway.config import Jwt
from gateway.login import code_logins
from gateway.login.code_logins import CodeLogins
from gateway.login.signing_keys import DISCOVERY
from gateway.login.tokens import Tokens


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    found = IdentityProvider()
    found.start()
    yield found
    if found.silence is not None:
        found.silence.set()
    found.stop()


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def stage(provider: IdentityProvider, *, clock: Clock | None = None, secret: str = SECRET, **options: Any) -> PageSite:
    settings = Jwt(issuer=provider.issuer, **options.pop("jwt", {}))
    clocks: dict[str, Any] = {} if clock is None else {"clock": clock}
    tokens = Tokens(settings)
    tokens.start()
    wait_until(lambda: tokens._keys._keys)
    logins = CodeLogins(settings, CLIENT, secret, tokens, **clocks)
    return PageSite(provider=logins, **{"takes_passwords": False, **options})


async def sent_to(browser: Browser, place: str = "/login/provider") -> str:
    """Where the browser is sent to log in."""
    answer = await browser.get(place)
    assert answer.status == HTTPStatus.SEE_OTHER, answer.text
    return answer.headers["location"]


async def logged_in(
    page: PageSite, provider: IdentityProvider, browser: Browser, place: str = "/login/provider"
) -> Answer:
    return await browser.get(_path(provider.authorize(await sent_to(browser, place))))


def _path(place: str) -> str:
    split = urlsplit(place)
    return f"{split.path}?{split.query}"


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/")).status == HTTPStatus.OK


async def test_a_user_logs_in_and_comes_back_to_the_page_that_was_asked_for(provider: IdentityProvider) -> None:
    page = stage(provider)
    browser = await page.browser()
    answer = await browser.get("/views?q=a")
    assert answer.headers["location"] == "/login/provider?next=%2Fviews%3Fq%3Da"
    answer = await logged_in(page, provider, browser, answer.headers["location"])
    assert (answer.status, answer.headers["refresh"]) == (HTTPStatus.OK, "0; url=/views?q=a")
    assert "ada" in (await browser.get("/views?q=a")).text
    assert list(browser.cookies) == ["freshgate"]
    assert page.site.service.audit.counts.logins_accepted == 1


async def test_nothing_of_the_providers_reaches_the_browser(provider: IdentityProvider) -> None:
    page = stage(provider)
    browser = await page.browser()
    answer = await logged_in(page, provider, browser)
    seen = f"{answer.text} {answer.headers} {browser.cookies}"
    assert "the access token" not in seen
    assert "eyJ" not in seen
    assert SECRET not in seen


@pytest.mark.parametrize("secure", [False, True])
async def test_the_cookie_of_an_attempt_is_for_the_return_only(provider: IdentityProvider, secure: bool) -> None:
    page = stage(provider, secure=secure)
    answer = await (await page.browser()).get("/login/provider")
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=lax", "max-age=600"))
    assert cookie.startswith("__host-freshgate-login=") is ("secure" in cookie) is secure
    (redirect,) = parse_qs(urlsplit(answer.headers["location"]).query)["redirect_uri"]
    assert redirect == f"http{'s' if secure else ''}://{HOST}/login/return"


async def test_a_trusted_proxy_says_that_browsers_use_tls(provider: IdentityProvider) -> None:
    for proxies, scheme in ((["127.0.0.1"], "https"), ([], "http")):
        browser = await stage(provider, proxies=proxies).browser()
        answer = await browser.get("/login/provider", x_forwarded_proto="https")
        assert parse_qs(urlsplit(answer.headers["location"]).query)["redirect_uri"][0].startswith(f"{scheme}://")
        assert answer.headers["set-cookie"].startswith("__Host-") is (scheme == "https")


@pytest.mark.parametrize(
    ("claims", "told", "jwt", "user", "sees"),
    [
        ({"sub": "x", "email": "ada@e.x"}, {}, {"user_claim": "email"}, "ada@e.x", False),
        ({"groups": ["admins"]}, {}, {"groups_claim": "groups"}, "ada", True),
        ({"roles": {"bi": ["admins"]}}, {}, {"groups_claim": "roles.bi"}, "ada", True),
        ({}, {"groups": ["admins"]}, {"groups_claim": "groups"}, "ada", True),
        ({}, {"email": "ada@e.x"}, {"user_claim": "email"}, "ada@e.x", False),
        ({"groups": []}, {"groups": ["admins"]}, {"groups_claim": "groups"}, "ada", False),
    ],
)
async def test_claims_name_the_user_and_groups_as_in_tokens(
    provider: IdentityProvider, claims: dict[str, Any], told: dict[str, Any], jwt: dict[str, Any], user: str, sees: bool
) -> None:
    provider.claims, provider.told = claims, told
    page = stage(provider, jwt=jwt, administrators=["group:admins"])
    page.site.table("s.sales")
    await page.site.view("s.daily", "SELECT n FROM s.sales WHERE secret_word = 1", owner="bob")
    browser = await page.browser()
    await logged_in(page, provider, browser)
    text = (await browser.get("/views/s/daily")).text
    assert f"<bdi>{user}</bdi>" in text
    assert ("secret_word" in text) is sees


@pytest.mark.parametrize("methods", [None, ["client_secret_basic"], ["client_secret_post"]])
async def test_the_gateway_shows_its_secret_as_the_provider_asks(
    provider: IdentityProvider, methods: list[str] | None
) -> None:
    if methods is not None:
        provider.document = {"token_endpoint_auth_methods_supported": methods}
    browser = await stage(provider).browser()
    assert (await logged_in(stage(provider), provider, browser)).status == HTTPStatus.OK


async def test_a_public_client_has_no_secret(provider: IdentityProvider) -> None:
    provider.secret = ""
    page = stage(provider, secret="")
    browser = await page.browser()
    await logged_in(page, provider, browser)
    assert await is_in(browser)


@pytest.mark.parametrize(
    ("claims", "key"),
    [
        ({"nonce": "another"}, SIGNING),
        ({"nonce": None}, SIGNING),
        ({"iss": "https://evil.example"}, SIGNING),
        ({"aud": "another program"}, SIGNING),
        ({"aud": [CLIENT, "another"], "azp": "another"}, SIGNING),
        ({"aud": None}, SIGNING),
        ({"exp": 1_000}, SIGNING),
        ({"exp": None}, SIGNING),
        ({"sub": None}, SIGNING),
        ({"sub": ""}, SIGNING),
        ({"sub": "a\nb"}, SIGNING),
        ({}, RSAKey.generate_key(2048, {"kid": SIGNING_KEY})),
    ],
)
async def test_a_wrong_id_token_lets_nobody_in(provider: IdentityProvider, claims: dict[str, Any], key: RSAKey) -> None:
    provider.claims, provider.key = claims, key
    page = stage(provider)
    browser = await page.browser()
    answer = await logged_in(page, provider, browser)
    assert answer.status == HTTPStatus.UNAUTHORIZED
    assert "is not accepted" in answer.text
    assert not browser.cookies
    assert page.site.service.audit.counts.logins_refused == 1


async def test_user_info_of_another_user_lets_nobody_in(provider: IdentityProvider) -> None:
    provider.told = {"sub": "root", "groups": ["admins"]}
    browser = await (page := stage(provider, jwt={"groups_claim": "groups"})).browser()
    assert (await logged_in(page, provider, browser)).status == HTTPStatus.UNAUTHORIZED


async def test_users_in_no_group_of_the_filter_are_refused(provider: IdentityProvider) -> None:
    page = stage(provider, jwt={"groups_claim": "groups", "group_filter": ("bi",)})
    browser = await page.browser()
    provider.claims = {"groups": ["other"]}
    assert (await logged_in(page, provider, browser)).status == HTTPStatus.UNAUTHORIZED
    provider.claims = {"groups": ["bi"]}
    assert (await logged_in(page, provider, browser)).status == HTTPStatus.OK


async def test_a_return_counts_once(provider: IdentityProvider) -> None:
    page = stage(provider)
    browser = await page.browser()
    back = _path(provider.authorize(await sent_to(browser)))
    copied = Browser(page.app, dict(browser.cookies))
    assert (await browser.get(back)).status == HTTPStatus.OK
    provider.asked.clear()
    assert (await copied.get(back)).status == HTTPStatus.UNAUTHORIZED
    assert provider.asked == [], "the provider is not asked again"


async def test_a_code_counts_once(provider: IdentityProvider) -> None:
    page = stage(provider)
    one, other = await page.browser(), await page.browser()
    back = parse_qs(urlsplit(provider.authorize(await sent_to(one))).query)
    await one.get(f"/login/return?code={back['code'][0]}&state={back['state'][0]}")
    state = parse_qs(urlsplit(await sent_to(other)).query)["state"][0]
    assert (await other.get(f"/login/return?code={back['code'][0]}&state={state}")).status == HTTPStatus.UNAUTHORIZED


async def test_the_code_of_another_browser_is_worth_nothing(provider: IdentityProvider) -> None:
    """An attacker who has a victim's code, or makes a victim return with the attacker's."""
    page = stage(provider)
    victim, attacker = await page.browser(), await page.browser()
    stolen = parse_qs(urlsplit(provider.authorize(await sent_to(victim))).query)["code"][0]
    state = parse_qs(urlsplit(await sent_to(attacker)).query)["state"][0]
    assert (await attacker.get(f"/login/return?code={stolen}&state={state}")).status == HTTPStatus.UNAUTHORIZED
    back = _path(provider.authorize(await sent_to(attacker)))
    assert (await victim.get(back)).status == HTTPStatus.UNAUTHORIZED
    assert not await is_in(victim)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?code=x",
        "?state=&code=x",
        "?state=é&code=x",
        "?error=access_denied",
        "?state=x&code=x&iss=https://evil.example",
    ],
)
async def test_returns_that_nobody_has_begun_are_refused(provider: IdentityProvider, question: str) -> None:
    page = stage(provider)
    for browser in (await page.browser(), Browser(page.app, {"freshgate-login": "x"})):
        assert (await browser.get(f"/login/return{question}")).status == HTTPStatus.UNAUTHORIZED
    assert "/token" not in provider.asked


@pytest.mark.parametrize(
    "more", ["&iss=https://evil.example", "&code=another", "&state=another", "&error=access_denied"]
)
async def test_the_answer_of_another_provider_or_with_more_is_refused(provider: IdentityProvider, more: str) -> None:
    page = stage(provider)
    browser = await page.browser()
    back = parse_qs(urlsplit(provider.authorize(await sent_to(browser))).query)
    answer = await browser.get(f"/login/return?code={back['code'][0]}&state={back['state'][0]}{more}")
    assert answer.status == HTTPStatus.UNAUTHORIZED
    assert "/token" not in provider.asked


async def test_a_user_may_take_ten_minutes(provider: IdentityProvider) -> None:
    clock = Clock()
    page = stage(provider, clock=clock)
    for seconds, status in ((599, HTTPStatus.OK), (601, HTTPStatus.UNAUTHORIZED)):
        browser = await page.browser()
        back = _path(provider.authorize(await sent_to(browser)))
        clock.now += seconds
        assert (await browser.get(back)).status == status


@pytest.mark.parametrize(
    "answers",
    [
        {DISCOVERY: (500, "")},
        {DISCOVERY: (200, "<html>")},
        {DISCOVERY: (200, "[]")},
        {DISCOVERY: (200, '{"issuer": "https://evil.example"}')},
        {DISCOVERY: (302, "")},
    ],
)
async def test_a_provider_without_a_document_is_reported(
    provider: IdentityProvider, answers: dict[str, tuple[int, str]]
) -> None:
    browser = await stage(provider).browser()
    provider.answers = answers
    answer = await browser.get("/login/provider")
    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "does not answer as it should" in answer.text
    provider.answers = {}
    assert await sent_to(browser)


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
async def test_a_document_leads_nowhere_without_tls(provider: IdentityProvider, name: str) -> None:
    provider.document = {name: "http://evil.example/x"}
    page = stage(provider)
    browser = await page.browser()
    answer = await browser.get("/login/provider")
    if name == "token_endpoint":
        answer = await browser.get(_path(provider.authorize(answer.headers["location"])))
    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert not await is_in(browser)


@pytest.mark.parametrize(("status", "body"), [(500, ""), (200, "{}"), (200, "x" * 2_000_000), (200, '{"id_token": 7}')])
async def test_a_provider_that_redeems_no_code_is_reported(provider: IdentityProvider, status: int, body: str) -> None:
    provider.answers = {"/token": (status, body)}
    page = stage(provider)
    browser = await page.browser()
    assert (await logged_in(page, provider, browser)).status == HTTPStatus.SERVICE_UNAVAILABLE
    assert not await is_in(browser)


async def test_a_silent_provider_holds_nobody_who_is_in(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_logins, "ANSWER_SECONDS", 0.2)
    page = stage(provider)
    browser = await page.browser()
    await logged_in(page, provider, browser)
    late = await page.browser()
    back = _path(provider.authorize(await sent_to(late)))
    provider.silence = threading.Event()
    assert (await late.get(back)).status == HTTPStatus.SERVICE_UNAVAILABLE
    assert await is_in(browser)


async def test_the_login_page_offers_what_there_is(provider: IdentityProvider) -> None:
    for takes_passwords in (True, False):
        page = stage(provider, takes_passwords=takes_passwords)
        browser = await page.browser()
        text = (await browser.get("/login?next=/views")).text
        assert 'href="/login/provider?next=/views"' in text
        assert ('type="password"' in text) is takes_passwords
        assert (await browser.get("/")).headers["location"].startswith("/login?") is takes_passwords
    nobody = await PageSite(takes_passwords=False).browser()
    assert "Nobody can log in here" in (await nobody.get("/login")).text
    assert (await nobody.get("/login/provider")).status == HTTPStatus.UNAUTHORIZED


async def test_after_logging_out_nobody_is_logged_in_again_at_once(provider: IdentityProvider) -> None:
    page = stage(provider)
    browser = await page.browser()
    await logged_in(page, provider, browser)
    answer = await browser.post("/logout", {"token": (await browser.get("/")).token})
    assert answer.headers["location"] == "/login"
    assert not await is_in(browser)


async def test_a_link_of_another_site_leads_to_the_page_of_a_visitor() -> None:
    """Browsers keep the cookie from it: the visitor would have to log in again."""
    page = PageSite()
    browser = await page.browser()
    answer = await browser.get("/views?q=%3Cb%3E", sec_fetch_site="cross-site")
    assert (answer.status, answer.headers["refresh"]) == (HTTPStatus.OK, "0; url=/views?q=%3Cb%3E")
    assert (await browser.get("/views", sec_fetch_site="same-origin")).status == HTTPStatus.SEE_OTHER


@pytest.mark.parametrize("place", ["/views/s/%E8%A1%A8", "/views/s/a%2Fb", "/views/s/50%2525"])
async def test_links_lead_to_views_of_any_name(place: str) -> None:
    page = PageSite()
    browser = await page.browser()
    answer = await browser.get(place, sec_fetch_site="cross-site")
    assert (answer.status, answer.headers["refresh"]) == (HTTPStatus.OK, f"0; url={place}")
    assert not browser.cookies
    login = (await browser.get(place)).headers["location"]
    (after,) = parse_qs(urlsplit(login).query)["next"]
    answer = await browser.post("/login", {"user": "ada", "password": "ada", "next": after})
    assert answer.headers["location"] == place
