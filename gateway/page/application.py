"""The page's paths, and what every request must fulfil.

Each answer is a whole page that works without scripts. A script (`static/page.js`) asks for the same address again
while the page is visible, and replaces its main part.

Tests: `test_browser_page`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway.access_list import Principal
from gateway.errors import FreshgateError, LoginDenied, LoginUnchecked
from gateway.login.code_returns import ATTEMPT_SECONDS, Return
from gateway.page import wording
from gateway.page.actions import Actions
from gateway.page.page_logins import NOBODY, PageLogins
from gateway.page.page_sources import Safety, Unknown
from gateway.page.screens import Screens
from gateway.page.visitors import Visitor
from gateway.status import shared_words as words

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
FORM_BYTES_MAX = 64 * 1024
FIELDS_MAX = 100
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
VISIT, ATTEMPT = "freshgate", "freshgate-login"
"""Names of cookies: of a visit, and of a login that has begun at an identity provider."""
RETURN = "/login/return"
ADDRESS_CHARACTERS = "/?&=%#:@!$'()*+,;~"
"""Those that stay as they are in an address."""
NEXT_CHARACTERS_MAX = 1_000
STATIC = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}

Screen = Callable[[Request, Principal], Awaitable[Mapping[str, Any]]]


class Application:
    def __init__(self, shown: Screens, actions: Actions, logins: PageLogins, safety: Safety) -> None:
        self._screens = shown
        self._actions = actions
        self._logins = logins
        self._safety = safety
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, auto_reload=False
        )
        self._templates.filters.update(wording.FILTERS)
        self._static = {name: (FOLDER / "static" / name).read_bytes() for name in STATIC}
        hashed = {name: hashlib.sha256(content).hexdigest()[:12] for name, content in self._static.items()}
        self._templates.globals.update(
            static=lambda name: f"/static/{hashed[name]}/{name}", link=wording.link, words=words
        )
        for name in self._templates.list_templates():
            # The first browser would hold the event loop for the time that this takes.
            self._templates.get_template(name)

    def asgi(self) -> Starlette:
        screens = self._screens
        routes = [
            Route("/static/{hash}/{name}", self._file),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/login/provider", self._begin_at_provider),
            Route(RETURN, self._return_from_provider),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/do/{action}", self._act, methods=["POST"]),
            self._screen("/", "attention", screens.attention),
            self._screen("/views", "views", screens.views),
            self._screen("/views/{database}/{name:path}", "view", screens.view),
            self._screen("/lineage/{database}/{name:path}", "lineage", screens.lineage),
            self._screen("/activity", "activity", screens.activity),
            self._screen("/statements/{number:int}", "statement", screens.statement),
            self._screen("/tasks/{number:int}", "task", screens.task),
            self._screen("/savings", "savings", screens.savings),
        ]
        handlers: dict[Any, Any] = {HTTPException: self._refused, Exception: self._failed}
        return Starlette(routes=routes, exception_handlers=handlers)

    # --- every request ------------------------------------------------------------------------------------

    def _screen(self, path: str, template: str, screen: Screen) -> Route:
        async def answer(request: Request) -> Response:
            self._admit(request)
            visitor = await self._visitor(request)
            if visitor is None:
                return self._to_login(request)
            try:
                shown = await screen(request, visitor.who)
            except Unknown as error:
                return self._page("error", visitor, status=404, title="Not found", text=str(error))
            if request.query_params.get("format") == "json":
                return JSONResponse(wording.json_of(shown), headers=HEADERS)
            return self._unless_known(request, self._page(template, visitor, **shown))

        return Route(path, answer)

    def _admit(self, request: Request) -> None:
        """Raises HTTPException for a request that no page of this server has caused, or by a name that is not ours."""
        refused = self._safety.admission(request.headers.get("host"), None)
        if refused is not None:
            raise HTTPException(refused[0], refused[1])
        if request.method in ("GET", "HEAD"):
            return
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise HTTPException(HTTPStatus.FORBIDDEN, "This request comes from a page of another site.")
        if origin is None and site not in ("same-origin", None):
            raise HTTPException(HTTPStatus.FORBIDDEN, "This request comes from a page of another site.")

    async def _visitor(self, request: Request) -> Visitor | None:
        """Raises HTTPException if it is unknown at the moment."""
        try:
            return await self._logins.visitor(self._cookie(request))
        except LoginUnchecked as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error

    def _cookie(self, request: Request) -> str:
        return request.cookies.get(self._named(request, VISIT), "")

    def _is_secure(self, request: Request) -> bool:
        forwarded = request.headers.getlist("x-forwarded-proto")
        return self._safety.secure or self._logins.over_tls(request.client, forwarded)

    def _named(self, request: Request, cookie: str) -> str:
        """The name of a cookie. Browsers take one with this prefix only for one host, all paths, and over TLS (RFC
        6265bis, 4.1.3)."""
        return f"__Host-{cookie}" if self._is_secure(request) else cookie

    def _set(self, response: Response, request: Request, cookie: str, value: str, seconds: int | None = None) -> None:
        """Sets a cookie, for as long as the browser runs, or for `seconds`: then other sites may lead here with it."""
        response.set_cookie(
            self._named(request, cookie),
            value,
            seconds,
            path="/",
            secure=self._is_secure(request),
            httponly=True,
            samesite="strict" if seconds is None else "lax",
        )

    def _page(self, template: str, visitor: Visitor | None, status: int = 200, **shown: Any) -> Response:
        said = ""
        if visitor is not None and visitor is not NOBODY:
            said, visitor.said = visitor.said, ""
        text = self._templates.get_template(f"{template}.html").render(visitor=visitor, said=said, **shown)
        return Response(text, status, HEADERS, "text/html; charset=utf-8")

    @staticmethod
    def _unless_known(request: Request, response: Response) -> Response:
        """Without a body if the browser has this very page."""
        tag = f'"{hashlib.sha256(bytes(response.body)).hexdigest()[:32]}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={**HEADERS, "ETag": tag})
        response.headers["ETag"] = tag
        return response

    async def _refused(self, _: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        return self._page("error", None, status=error.status_code, title=title, text=error.detail)

    async def _failed(self, request: Request, error: Exception) -> Response:
        log.error("the page %s failed", request.url.path, exc_info=error)
        text = "The gateway failed to make this page; its log says why."
        return self._page("error", None, status=500, title="Failed", text=text)

    async def _file(self, request: Request) -> Response:
        self._admit(request)
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such file.")
        # Its address changes with its content.
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._static[name], headers=headers, media_type=STATIC[name])

    # --- logins -------------------------------------------------------------------------------------------

    def _to_login(self, request: Request) -> Response:
        """The answer to a request of a browser that has not logged in."""
        place = _address(request)
        if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
            # A link of another site has led here, without the cookie, which browsers send from this site only.
            return self._onward(place)
        way = "/login" if self._logins.takes_passwords or not self._logins.provider else "/login/provider"
        return _redirect(f"{way}?next={quote(place, safe='')}")

    def _onward(self, place: str) -> Response:
        """A page that leads to a local place at once: unlike a redirection, it is this site that leads there."""
        response = self._page("onward", None, place=place)
        response.headers["Refresh"] = f"0; url={quote(place, safe=ADDRESS_CHARACTERS)}"
        return response

    def _login_page(self, after: str, problem: str = "", status: int = 200) -> Response:
        logins = self._logins
        provider = {"provider": logins.provider, "takes_passwords": logins.takes_passwords}
        return self._page("login", None, status=status, next=after, problem=problem, **provider)

    async def _login(self, request: Request) -> Response:
        self._admit(request)
        if not self._logins.required:
            return _redirect("/")
        if request.method != "POST":
            return self._login_page(_local(request.query_params.get("next", "/")))
        form = await _form(request)
        after, user = _local(form.get("next", "/")), form.get("user", "")
        try:
            cookie = await self._logins.enter(user, form.get("password", ""), self._peer(request))
        except FreshgateError as error:
            return self._login_page(after, str(error), _status(error))
        response = _redirect(after)
        self._welcome(response, request, cookie)
        return response

    def _welcome(self, response: Response, request: Request, cookie: str) -> None:
        # What the browser had before is worth nothing: nobody can have prepared it.
        self._logins.leave(self._cookie(request))
        self._set(response, request, VISIT, cookie)

    async def _begin_at_provider(self, request: Request) -> Response:
        self._admit(request)
        after = _local(request.query_params.get("next", "/"))
        try:
            attempt, place = await self._logins.begin(self._redirect_uri(request), self._peer(request))
        except FreshgateError as error:
            return self._login_page(after, str(error), _status(error))
        response = _redirect(place)
        kept = quote(after if len(after) <= NEXT_CHARACTERS_MAX else "/", safe="")
        self._set(response, request, ATTEMPT, f"{attempt}:{kept}", ATTEMPT_SECONDS)
        return response

    async def _return_from_provider(self, request: Request) -> Response:
        self._admit(request)
        asked = request.query_params
        attempt, _, kept = request.cookies.get(self._named(request, ATTEMPT), "").partition(":")
        after = _local(unquote(kept) or "/")
        given = Return(*(asked.get(name, "") for name in ("state", "code", "error", "iss")))
        try:
            if len(asked.multi_items()) != len(asked):
                raise LoginDenied("The identity provider's answer has a parameter twice.")
            cookie = await self._logins.enter_returned(attempt, self._redirect_uri(request), given, self._peer(request))
        except FreshgateError as error:
            response = self._login_page(after, str(error), _status(error))
        else:
            response = self._onward(after)
            self._welcome(response, request, cookie)
        response.delete_cookie(
            self._named(request, ATTEMPT), secure=self._is_secure(request), httponly=True, samesite="lax"
        )
        return response

    def _redirect_uri(self, request: Request) -> str:
        scheme = "https" if self._is_secure(request) else "http"
        return f"{scheme}://{request.headers.get('host', '')}{RETURN}"

    def _peer(self, request: Request) -> str:
        return self._logins.peer(request.client, request.headers.getlist("x-forwarded-for"))

    async def _logout(self, request: Request) -> Response:
        self._admit(request)
        visitor, form = await self._visitor(request), await _form(request)
        if visitor is not None and visitor.sent(form.get("token", "")):
            self._logins.leave(self._cookie(request))
        response = _redirect("/login")
        response.delete_cookie(
            self._named(request, VISIT), secure=self._is_secure(request), httponly=True, samesite="strict"
        )
        return response

    # --- buttons ------------------------------------------------------------------------------------------

    async def _act(self, request: Request) -> Response:
        self._admit(request)
        visitor, form = await self._visitor(request), await _form(request)
        if visitor is None or visitor is NOBODY:
            raise HTTPException(HTTPStatus.FORBIDDEN, "Log in first.")
        if not visitor.sent(form.get("token", "")):
            raise HTTPException(HTTPStatus.FORBIDDEN, "This form is too old. Go back, and load the page again.")
        try:
            visitor.said = await self._actions.run(request.path_params["action"], form, visitor.who)
        except Unknown as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from error
        except FreshgateError as error:
            visitor.said = f"{error} ({error.sqlstate})"
        return _redirect(_local(form.get("back", "/")))


def _status(error: FreshgateError) -> HTTPStatus:
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, LoginUnchecked) else HTTPStatus.UNAUTHORIZED


def _redirect(place: str) -> RedirectResponse:
    return RedirectResponse(place, HTTPStatus.SEE_OTHER, HEADERS)


def _address(request: Request) -> str:
    """The path and query of a request, as the browser has sent them: a name may contain a slash."""
    path: str = request.scope["raw_path"].decode("latin-1")
    return path + (f"?{request.url.query}" if request.url.query else "")


def _local(place: str) -> str:
    """A path of this server; the first page for anything else."""
    return place if place.startswith("/") and not place.startswith(("//", "/\\")) and place.isprintable() else "/"


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises HTTPException if it is too long."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This form is too long.")
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"This form has more than {FIELDS_MAX} fields.") from error
