"""The page over a simulated gateway, asked without a network."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from fakes import Site

from gateway.access_list import AccessList
from gateway.errors import LoginDenied
from gateway.login.code_logins import CodeLogins
from gateway.login.groups import NO_SOURCES, UserGroups
from gateway.mv.model.view import Cause
from gateway.mv.statements.rights import Rights
from gateway.mv.versions.kept import KeptVersion
from gateway.mv.versions.measures import Measure
from gateway.page.actions import Actions
from gateway.page.application import Application
from gateway.page.page_logins import PageLogins
from gateway.page.page_sources import PageSources, Safety
from gateway.page.screens import Screens
from gateway.page.survey import Surveyor
from gateway.proxy.hosts import Hosts
from gateway.proxy.trusted_proxies import TrustedProxies
from gateway.service.answers.catalog_tables import About
from gateway.service.answers.upkeep import Upkeep
from gateway.service.clients.handover import Logins
from gateway.wire.member import GatewayRole, Member
from gateway.wire.sasl import Login

HOST = "127.0.0.1:8765"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def token(self) -> str:
        """What the forms on this page contain."""
        found = re.search(r'name="token" value="([^"]+)"', self.text)
        assert found is not None, self.text
        return found[1]


class Passwords:
    """Everybody's password is the name backwards."""

    required = True

    async def check(self, login: Login, peer: str = "") -> Login:
        assert peer
        if login.password != login.user[::-1] or not login.user:
            raise LoginDenied("No such user, or another password.")
        return login

    async def standing(self, user: str) -> Hashable:
        return None


class Jobs:
    """No view has a schedule."""

    def __init__(self) -> None:
        self.paused: list[tuple[str, bool]] = []

    def next_run(self, _: str) -> None:
        return None

    async def pause(self, entry: Any, *, paused: bool) -> None:
        self.paused.append((str(entry.view.name), paused))


class Queue:
    """Tasks that are begun, and never run."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, Cause]] = []
        self.cancelled: list[int] = []

    async def begin(self, view_id: str, cause: Cause) -> int:
        self.begun.append((view_id, cause))
        return 7

    async def cancel(self, _: str, task: int, __: str) -> None:
        self.cancelled.append(task)

    def progress(self, _: str) -> None:
        return None

    def forget_automatic(self, _: str) -> None: ...


@dataclass
class Browser:
    """Keeps cookies, as browsers do."""

    app: Any
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, place: str, **headers: str) -> Answer:
        return await self.ask("GET", place, b"", headers)

    async def post(self, place: str, fields: Mapping[str, str], **headers: str) -> Answer:
        sent = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{HOST}", **headers}
        return await self.ask("POST", place, urlencode(fields).encode(), sent)

    async def log_in(self, user: str) -> None:
        answer = await self.post("/login", {"user": user, "password": user[::-1], "next": "/"})
        assert answer.status == HTTPStatus.SEE_OTHER, answer.text

    async def ask(self, method: str, place: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        split = urlsplit(place)
        sent = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": _decoded(split.path),
            "raw_path": split.path.encode(),
            "query_string": split.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1234),
            "server": ("127.0.0.1", 8765),
        }
        messages: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        start = messages[0]
        found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        for header, cookie in start["headers"]:
            if header.lower() == b"set-cookie":
                self._keep(cookie.decode())
        text = b"".join(message.get("body", b"") for message in messages[1:])
        return Answer(start["status"], found, text.decode())

    def _keep(self, cookie: str) -> None:
        name, _, rest = cookie.partition("=")
        value = rest.partition(";")[0].strip('"')
        self.cookies[name] = value
        if not value or "max-age=0" in rest.lower().split("; "):
            del self.cookies[name]


class PageSite:
    """A gateway with a page. Ada owns its views, root administers it."""

    def __init__(
        self,
        *,
        authenticator: Any = None,
        secure: bool = False,
        groups: UserGroups = NO_SOURCES,
        administrators: Sequence[str] = ("root",),
        proxies: Sequence[str] = (),
        provider: CodeLogins | None = None,
        takes_passwords: bool = True,
    ) -> None:
        self.site = Site()
        self.jobs, self.queue = Jobs(), Queue()
        self.servers: str | None = None
        self.limits, self.lost = "", 0
        catalog, rights = self.site.catalog, Rights(AccessList.of(administrators))
        member = Member("127.0.0.1:10000", GatewayRole.LEADER, 1, 1, 2, "0.1.0")
        members, nothing = cast(Any, SimpleNamespace(all=lambda: [member])), cast(Any, None)
        tasks, jobs, audit = cast(Any, self.queue), cast(Any, self.jobs), self.site.service.audit
        sources = PageSources(
            catalog,
            tasks,
            jobs,
            self.site.costs,
            cast(Any, SimpleNamespace(kept=lambda view: [KeptVersion(view.current, 0, 0)] if view.built else [])),
            cast(Any, SimpleNamespace(known=lambda _: {1: Measure(5, 1_234)})),
            rights,
            audit.recent,
            self.site.usages,
            nothing,
            members,
            lambda: About("s", "ABSENT", "no jar", None, self.servers, audit_lines_lost=self.lost),
            lambda _: self.limits,
            list,
            advises=False,
        )
        upkeep = Upkeep(catalog, nothing, tasks, jobs, nothing, nothing, rights, nothing)
        safety = Safety(secure, Hosts(exposed=False, setting="page.hosts").refusal)
        logins = Logins(cast(Any, None), cast(Any, authenticator or Passwords()), groups)
        application = Application(
            Screens(sources, Surveyor(catalog, jobs, clock=self._now)),
            Actions(catalog, upkeep, audit),
            PageLogins(logins, audit, TrustedProxies(proxies), provider, takes_passwords=takes_passwords),
            safety,
        )
        self.app = application.asgi()
        self._clock = 0.0

    def _now(self) -> float:
        """Each picture of the catalog is a new one."""
        self._clock += 10
        return self._clock

    async def browser(self, user: str = "") -> Browser:
        browser = Browser(self.app)
        if user:
            await browser.log_in(user)
        return browser


def _decoded(path: str) -> str:
    return re.sub(r"(?:%[0-9A-Fa-f]{2})+", lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), path)
