"""Tests what clients read in ZooKeeper about a gateway."""

from __future__ import annotations

import pytest

from gateway import settings_file
from gateway.config import version
from gateway.discovery.server_nodes import leader_path, server_nodes

BINARY = (
    "hive.server2.thrift.bind.host=here;hive.server2.transport.mode=binary;hive.server2.thrift.port=7;"
    "hive.server2.thrift.sasl.qop=auth;hive.server2.authentication=NONE;hive.server2.use.SSL=false"
)


def nodes(*settings: str, ports: tuple[int, ...] = (7, 8)) -> list[tuple[str, str]]:
    """Address and data of each node."""
    given = [f"discovery.{each}" if each.partition("=")[0] in ("address", "namespace") else each for each in settings]
    found = server_nodes(settings_file.load(None, given), ports, "here")
    assert all(node.prefix == f"serverUri={node.address};version={version()};sequence=" for node in found)
    return [(f"{node.namespace} {node.address}", node.data) for node in found]


def test_the_node_of_a_binary_port_is_that_of_hiveserver2() -> None:
    assert nodes() == [("/freshgate here:7", BINARY)]


def test_each_port_has_a_node_of_its_own() -> None:
    binary, http = nodes("listen.http_port=0", "tls.certificate=x", "tls.ports=http")
    assert binary == ("/freshgate here:7", BINARY)
    assert http[0] == "/freshgate_http here:8"
    assert "transport.mode=http;hive.server2.thrift.http.port=8;hive.server2.thrift.http.path=cliservice" in http[1]
    assert "thrift.port" not in http[1]
    assert http[1].endswith("use.SSL=true")
    ((only, _),) = nodes("listen.http_port=0", "listen.port=-1")
    assert only == "/freshgate here:7"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("", "here:7"),
        ("gate.example", "gate.example:7"),
        ("gate.example:443", "gate.example:443"),
        ("[::1]", "[::1]:7"),
        ("[::1]:9", "[::1]:9"),
    ],
)
def test_the_address_may_be_given(address: str, found: str) -> None:
    assert nodes(f"address={address}", "namespace=/a/b/")[0][0] == f"/a/b {found}"
    both = nodes(f"address={address}", "listen.http_port=0")
    assert [place.rpartition(":")[2] for place, _ in both] == [found.rpartition(":")[2], "8"]


def test_clients_are_told_to_use_no_sasl_only_if_nothing_else_is_accepted() -> None:
    assert "authentication=NOSASL;" in nodes("listen.transports=nosasl")[0][1]
    assert "authentication=NONE;" in nodes("listen.transports=nosasl,sasl")[0][1]
    assert "authentication=NONE;" in nodes("listen.transports=nosasl", "listen.port=-1", "listen.http_port=0")[0][1]
    assert "authentication=CUSTOM;" in nodes("authentication.method=file")[0][1]


def test_the_principal_is_found_if_clients_need_it() -> None:
    keytab = ["kerberos.keytab=/k", "kerberos.principals=HTTP/lb@A,hive/lb@A,hive/other@A", "listen.http_port=0"]
    binary, http = (data for _, data in nodes("authentication=kerberos", *keytab))
    assert "authentication=KERBEROS;hive.server2.authentication.kerberos.principal=hive/lb@A;" in binary
    assert "authentication=KERBEROS;hive.server2.authentication.kerberos.principal=HTTP/lb@A;" in http
    assert "sasl.qop=auth;" in binary
    assert "principal" not in nodes("authentication=kerberos", keytab[0])[0][1]
    assert "principal" not in nodes("authentication=kerberos,file", *keytab)[0][1]
    assert "sasl.qop=auth-int;" in nodes("authentication=kerberos", *keytab, "kerberos.qop=auth-conf,auth-int")[0][1]


def test_the_leader_is_not_among_the_servers() -> None:
    assert leader_path("/freshgate", "m") == "/freshgate_leaders/m"
