"""The page for browsers: where it reads, and who may log in."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gateway.assembly.listening import hosts_of
from gateway.assembly.one_gateway import Gateway
from gateway.config import Settings
from gateway.errors import FreshgateError
from gateway.login import exposure, methods
from gateway.monitoring.readiness import Readiness
from gateway.page.page_logins import PageLogins
from gateway.page.page_sources import PageSources, Safety
from gateway.proxy.tls import Certificate
from gateway.proxy.trusted_proxies import TrustedProxies

if TYPE_CHECKING:
    from gateway.page.page_server import PageServer


def page_of(settings: Settings, gateway: Gateway, readiness: Readiness) -> PageServer | None:
    """None without the page. Raises FreshgateError without its extra, or for an unusable certificate."""
    place, service = settings.page, gateway.service
    if not place.port:
        return None
    try:
        building = import_module("..page.page_assembly", __package__)
    except ImportError as error:
        raise FreshgateError(
            f"page.port is set, which needs more packages ({error}). Install freshgate[page]."
        ) from error
    certificate = page_certificate(settings)
    hosts = hosts_of(place.host, place.hosts, "page.hosts")
    logins = PageLogins(
        service.logins,
        service.audit,
        TrustedProxies(settings.listen.trusted_proxies),
        methods.code_logins(settings),
        takes_passwords=settings.authentication.takes_passwords,
    )
    made: PageServer = building.page_server(
        place,
        _sources(settings, gateway, readiness),
        gateway.commands.upkeep,
        logins,
        service.audit,
        Safety(certificate is not None or not exposure.is_local(place.host), hosts.refusal),
        certificate,
        listens=not settings.gateways.enabled,
    )
    return made


def page_certificate(settings: Settings) -> Certificate | None:
    tls = settings.tls
    return Certificate(tls.certificate, tls.key, tls.client_ca) if exposure.page_uses_tls(settings) else None


def _sources(settings: Settings, gateway: Gateway, readiness: Readiness) -> PageSources:
    rows, rewriting, service = gateway.rows, gateway.rewriting, gateway.service
    return PageSources(
        catalog=gateway.views.catalog,
        tasks=gateway.refreshes.tasks,
        jobs=gateway.scheduling.jobs,
        costs=gateway.refreshes.costs,
        versions=gateway.versions.versions,
        measures=rewriting.measures,
        rights=rows.activity.rights,
        recent=service.audit.recent,
        usages=rewriting.usages,
        suggestions=rewriting.suggestions,
        members=rows.members,
        about=rows.about,
        limits_reached=lambda who: rows.activity.reached(service.sessions.quotas, who, ""),
        spark_missing=lambda: readiness.missing,
        advises=settings.rewrite.advice,
    )
