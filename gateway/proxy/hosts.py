"""The names by which requests over HTTP may address the gateway, and why web pages may send none.

A page in a user's browser can send requests to whatever that browser reaches, such as a gateway on the user's own
machine. It cannot read answers of another origin, but its own name may be made to mean 127.0.0.1 (DNS rebinding): then
the gateway is of the page's origin. Two headers, which a page cannot forge, tell such requests from those of drivers:

- `Origin`. Browsers send it with every POST, and with every request of a page of another origin. Drivers, scrapers and
  probes send none.
- `Host`, the name in the page's own address. Browsers send no Origin with a page's GET of its own origin.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from gateway.tally import Seldom

log = logging.getLogger(__name__)

LOG_SECONDS = 10.0
"""Refusals within this time after a logged one are not logged: a page may send thousands."""
_SHOWN_MAX = 200
_LABEL = re.compile(r"[a-z0-9_-]+")
"""A name without a dot."""


class Hosts:
    """Decides about the headers `Host` and `Origin` of requests at one port.

    `names`: the names that `Host` may have. Empty: any if `exposed`, that is if other machines reach the port;
    otherwise those that cannot be names of web sites. Addresses and localhost are always accepted. `setting` is the
    setting of the names.
    """

    def __init__(self, names: Iterable[str] = (), *, exposed: bool, setting: str) -> None:
        self._names = frozenset(map(str.lower, names))
        self._any = exposed and not self._names
        self._setting = setting
        self._seldom = Seldom(LOG_SECONDS)

    def refusal(self, host: str | None, origin: str | None) -> tuple[HTTPStatus, str] | None:
        """The answer to a request with these headers; None if it may be served. A missing header is None."""
        if origin is not None:
            return HTTPStatus.FORBIDDEN, self._logged(f"Requests of web pages are refused (Origin: {_shown(origin)}).")
        if host is not None and not self._accepts(host):
            return HTTPStatus.MISDIRECTED_REQUEST, self._logged(
                f"This gateway is not known by the name in this request (Host: {_shown(host)}). Use its address, or "
                f"add the name to {self._setting}."
            )
        return None

    def _accepts(self, host: str) -> bool:
        if self._any:
            return True
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if _is_address(name) or name == "localhost" or name.endswith(".localhost") or name in self._names:
            return True
        # Those of hosts files, containers and nginx' upstreams.
        return _LABEL.fullmatch(name) is not None and not self._names

    def _logged(self, text: str) -> str:
        if self._seldom.is_due():
            log.warning("a request over HTTP was refused. %s", text)
        return text


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown(header: str) -> str:
    """A header as text of a log line."""
    return repr(header[:_SHOWN_MAX])[1:-1]
