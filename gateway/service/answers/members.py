"""The gateways over this metastore, as the one that leads knows them: SHOW GATEWAYS and freshgate.gateways."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.config import EVERY_ADDRESS, OFF, Address, Settings, version
from gateway.mv.catalog.fence import Fence
from gateway.service.answers import info
from gateway.service.answers.catalog_tables import GATEWAYS, Table, moment_text
from gateway.service.operations.operation import Result
from gateway.wire.member import GatewayRole, Member
from gateway.wire.rowset import ResultColumn, Type
from sql import wildcards

SHOW_COLUMNS = (
    ResultColumn("address", comment="Where other gateways reach it (gateways.address); a single one: where clients do"),
    ResultColumn("role", comment="LEADER, or DOOR for one that passes its clients on"),
    ResultColumn("epoch", Type.BIGINT, "Number of the epoch in which it leads or follows"),
    ResultColumn("since", Type.TIMESTAMP, "When it took this role by its own clock, UTC"),
    ResultColumn("clients", Type.BIGINT, "Connections of clients to it"),
    ResultColumn("version", comment="Its release"),
)


class Served(Protocol):
    """The clients of this gateway: `proxy.listener.Listener`."""

    @property
    def ports(self) -> Sequence[int]: ...

    @property
    def clients(self) -> int: ...

    @property
    def relayed(self) -> int:
        """Those that other gateways pass on."""
        ...


class Members:
    """This gateway while it leads, and the doors that watch it."""

    def __init__(self, settings: Settings, fence: Fence) -> None:
        self._relay = settings.gateways.address if settings.gateways.enabled else ""
        self._listen = settings.listen
        self._fence = fence
        self._served: Served | None = None
        self._doors: Callable[[], Sequence[Member]] = tuple

    def serve(self, served: Served, doors: Callable[[], Sequence[Member]]) -> None:
        """From now on tells of these clients, and of these doors."""
        self._served, self._doors = served, doors

    def own(self) -> Member:
        """This gateway."""
        served = self._served
        leads = self._fence.lost is None
        return Member(
            self._address,
            GatewayRole.LEADER if leads else GatewayRole.SUPERSEDED,
            self._fence.epoch_number,
            round(self._fence.since * 1000),
            0 if served is None else served.clients - served.relayed,
            version(),
        )

    def status(self) -> dict[str, object]:
        """What /status says."""
        own = self.own()
        return own.shown(own.address if own.role is GatewayRole.LEADER else None)

    def all(self) -> list[Member]:
        """This gateway first."""
        return [self.own(), *self._doors()]

    def table(self) -> Table:
        """The rows of freshgate.gateways."""
        rows = [(*_place(each), moment_text(each.since), *_load(each)) for each in self.all()]
        return Table(GATEWAYS, rows)

    def show(self, pattern: str | None) -> Result:
        """SHOW GATEWAYS, of those whose address matches."""
        matches = wildcards.matcher(pattern)
        listed = [each for each in self.all() if matches(each.address)]
        return Result(SHOW_COLUMNS, [(*_place(each), info.moment(each.since), *_load(each)) for each in listed])

    @property
    def _address(self) -> str:
        if self._relay:
            return self._relay
        ports = self._served.ports if self._served is not None else ()
        named = next((port for port in (self._listen.port, self._listen.http_port) if port != OFF), 0)
        host = socket.gethostname() if self._listen.host in EVERY_ADDRESS else self._listen.host
        return str(Address(host, next(iter(ports), named)))


def _place(member: Member) -> tuple[str, str, int | None]:
    return member.address, member.role.value, member.epoch or None


def _load(member: Member) -> tuple[int, str]:
    return member.clients, member.version
