"""Drivers that log in with the ticket of KRB5CCNAME, as a program: Java reads that variable when it starts.

Arguments: CLIENT=URL, where a URL of JDBC names the driver's version in the place of CLIENT. Prints a line of JSON for
each: the user and the number of rows that it got, or the error.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import impala.dbapi
import jpype
from clients import pyhive, start_jvm
from drivers import hive_jdbc

WHO = "SELECT current_user()"
ROWS = 2_000
"""Drivers of Java ask for each row whether the statement has ended."""
MANY = f"SELECT id, repeat('x', 1000) FROM range({ROWS})"


def _read(cursor: Any) -> list[Any]:
    cursor.execute(WHO)
    ((user,),) = cursor.fetchall()
    cursor.execute(MANY)
    return [user, len(cursor.fetchall())]


def _with_pyhive(url: str) -> list[Any]:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    with pyhive(place.hostname, place.port, "", auth="KERBEROS", kerberos_service_name="hive") as cursor:
        return _read(cursor)


def _with_impyla(url: str) -> list[Any]:
    place = urlsplit(url)
    http = {"use_http_transport": True, "http_path": "cliservice"} if place.scheme == "http" else {}
    service = "HTTP" if http else "hive"
    connection = impala.dbapi.connect(
        place.hostname, place.port, auth_mechanism="GSSAPI", kerberos_service_name=service, **http
    )
    try:
        return _read(connection.cursor())
    finally:
        connection.close()


def _with_jdbc(version: str, url: str) -> list[Any]:
    start_jvm()
    system = jpype.java.lang.System
    system.setProperty("java.security.krb5.conf", os.environ["KRB5_CONFIG"])
    # The ticket is in a file, not with a Java program that has logged in itself.
    system.setProperty("javax.security.auth.useSubjectCredsOnly", "false")
    with hive_jdbc.connected(version, url) as connection:
        statement = connection.createStatement()
        ((user,),) = hive_jdbc.texts(statement.executeQuery(WHO))
        return [str(user), len(hive_jdbc.texts(statement.executeQuery(MANY)))]


CLIENTS: dict[str, Callable[[str], list[Any]]] = {"pyhive": _with_pyhive, "impyla": _with_impyla}


def outcome(client: str, url: str) -> Any:
    try:
        return CLIENTS[client](url) if client in CLIENTS else _with_jdbc(client, url)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    # impyla leaves sockets to the garbage collector.
    warnings.simplefilter("ignore", ResourceWarning)
    for argument in sys.argv[1:]:
        named, _, at = argument.partition("=")
        print(json.dumps(outcome(named, at)), flush=True)
