"""HTTP requests that go only where the settings say."""

from __future__ import annotations

import urllib.request
from typing import NoReturn
from urllib.error import URLError


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects could lead to an address that nobody has named, without TLS. Raises URLError."""

    def redirect_request(self, *_: object, **__: object) -> NoReturn:
        raise URLError("it redirects to another address")
