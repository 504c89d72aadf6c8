"""What all clients share: sessions, logins, and the answers to their statements."""

from __future__ import annotations

from gateway.access_list import AccessList
from gateway.assembly.at_spark import AtSpark
from gateway.assembly.records import Records
from gateway.assembly.routing import Routing
from gateway.assembly.views import Views
from gateway.config import Impersonator, Settings
from gateway.limit_rules import LimitRules
from gateway.login import methods
from gateway.login.impersonation import Impersonation
from gateway.loops import BackgroundTasks
from gateway.service.answers.commands import Commands
from gateway.service.answers.healing import Healing
from gateway.service.clients.handover import ANONYMOUS, Handover, Logins
from gateway.service.clients.moving import LooseSessions
from gateway.service.clients.quotas import Quotas
from gateway.service.clients.reads_of_views import ReadsOfViews
from gateway.service.clients.session import Sessions
from gateway.service.clients.setting_rules import SettingRules
from gateway.service.clients.sides import Sides
from gateway.service.dispatch import Service
from gateway.service.leadership import Leadership
from gateway.service.memory.memory_answers import MemoryAnswers
from gateway.service.memory.memory_explanation import MemoryExplanation
from gateway.service.routing.own_statements import OwnStatements
from gateway.wire.sasl import Login


def serve(
    settings: Settings,
    spark: AtSpark,
    views: Views,
    routing: Routing,
    commands: Commands,
    records: Records,
    memory: MemoryAnswers | None,
) -> Service:
    limits, healed, audit = settings.limits, Healing.of(settings.healing), records.audit
    sessions = Sessions(
        limits.sessions_per_user,
        limits.http_session_seconds,
        limits.connections,
        quotas=Quotas(LimitRules(limits.rules)),
        on_end=audit.closed,
        cancel_jobs=spark.engine.cancel_statement if healed.lost_cancels else lambda _: None,
        leads_elsewhere=spark.habits.leads_elsewhere,
    )
    servers = spark.connector.servers
    servers.lost.append(lambda server: sessions.lose_at(server.name))
    audit.ended.add(ReadsOfViews(views.catalog).count)
    sides = Sides(spark.connector, settings.authentication.remember_seconds)
    checking = methods.of(settings)
    logins = Logins(handover(settings, spark.connector.mechanism), checking.authenticator, checking.groups)
    leadership, loose = None, None
    background = BackgroundTasks("work for a client that has gone")
    if settings.gateways.enabled:
        leadership = Leadership(views.fence)
        sessions.stands = leadership.stands
        loose = LooseSessions(sessions, sides, logins.handover, audit, background, limits.drain_seconds)
    foresee = MemoryExplanation(routing.router, views.catalog, spark.habits, memory).foresee
    return Service(
        views.catalog,
        routing.router,
        routing.effects,
        OwnStatements(commands, routing.rewrites, routing.version_reads, routing.invokers, foresee),
        sides,
        logins,
        spark.habits,
        healed,
        limits.statement_bytes,
        sessions,
        audit,
        records.results,
        background,
        leadership,
        loose,
        setting_rules=SettingRules.of(settings.session),
        shares=servers.share,
        memory=memory,
    )


def handover(settings: Settings, mechanism: str) -> Handover:
    authentication, upstream_settings = settings.authentication, settings.upstream
    account = None
    if authentication.hand_on == "proxy_user":
        # Spark's PLAIN refuses an empty password even if it checks none.
        account = Login(upstream_settings.user, upstream_settings.password or ANONYMOUS, mechanism)
    checked = bool(authentication.methods)
    # The embedded Spark lets anybody act as any user; another one applies its own rules for proxy users.
    substitutes, access = not (checked and not upstream_settings.address), settings.access
    impersonation = Impersonation(map(Impersonator.parse, access.impersonators), AccessList.of(access.administrators))
    return Handover(mechanism, account, checked, substitutes, impersonation)
