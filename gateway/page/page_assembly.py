"""Builds the page. Importing this needs the extra `page`."""

from __future__ import annotations

from gateway.config import Address, PagePort
from gateway.page.actions import Actions
from gateway.page.application import Application
from gateway.page.page_logins import PageLogins
from gateway.page.page_server import PageServer
from gateway.page.page_sources import PageSources, Safety
from gateway.page.screens import Screens
from gateway.page.survey import Surveyor
from gateway.proxy.tls import Certificate
from gateway.service.answers.upkeep import Upkeep
from gateway.service.clients.audit import Audit


def page_server(
    place: PagePort,
    sources: PageSources,
    upkeep: Upkeep,
    logins: PageLogins,
    audit: Audit,
    safety: Safety,
    certificate: Certificate | None,
    *,
    listens: bool,
) -> PageServer:
    """`certificate`: None without TLS. `listens`: False if browsers are passed on to it."""
    screens = Screens(sources, Surveyor(sources.catalog, sources.jobs))
    actions = Actions(sources.catalog, upkeep, audit)
    application = Application(screens, actions, logins, safety)
    return PageServer(Address(place.host, place.port) if listens else None, application.asgi(), certificate)
