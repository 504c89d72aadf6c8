"""A program that runs one Spark with several Thrift servers, one for each transport and authentication.

Its arguments are a data directory, a key store (PKCS 12, password "secret"), and Spark's settings as JSON. For a server
that checks passwords, they also include the URL of an LDAP directory and the pattern of its users' names. It prints the
ports by name as one line of JSON, and ends when its standard input is closed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from jvm import spark_options
from processes import free_port

from gateway.spark import host

STORE_PASSWORD = "secret"
HTTP = {"hive.server2.transport.mode": "http", "hive.server2.authentication": "NONE"}
BINARY = {"hive.server2.transport.mode": "binary"}
NO_TLS = {"hive.server2.use.SSL": "false"}
FORGETFUL = {"hive.server2.idle.session.timeout": "1s", "hive.server2.session.check.interval": "3s"}
TLS = {"hive.server2.use.SSL": "true", "hive.server2.keystore.password": STORE_PASSWORD}

PROXY = {f"spark.hadoop.hadoop.proxyuser.svc.{what}": "*" for what in ("hosts", "groups")}
"""`svc` may open sessions for others."""


def main(data_dir: Path, key_store: Path, settings: dict[str, str], *ldap: str) -> None:
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    options = host.HostOptions(
        data_dir=data_dir,
        parent=os.getpid(),
        spark={"spark.ui.enabled": "false", **spark_options(), **PROXY, **settings},
    )
    data_dir.mkdir(parents=True, exist_ok=True)
    lock = host.lock_data_dir(options)
    host.prepare_data_dir(options)
    os.chdir(data_dir)
    first_server = host.start_server(options, lock, [])
    jvm = first_server.context._jvm
    # Spark reads these only from Java's system properties or hive-site.xml.
    for name, value in zip(("url", "userDNPattern"), ldap, strict=False):
        jvm.java.lang.System.setProperty(f"hive.server2.authentication.ldap.{name}", value)
    session = jvm.org.apache.spark.sql.SparkSession.active()
    server_class = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    # Spark derives each server's settings from those that it was started with, so the other servers' are set here.
    first = server_class.startWithSparkSession(session, False).getHiveConf()
    ports = {"sasl": first_server.port}
    tls = {**TLS, "hive.server2.keystore.path": str(key_store)}
    kinds = {
        "nosasl": {**BINARY, "hive.server2.authentication": "NOSASL", **NO_TLS},
        "http": {**HTTP, **NO_TLS},
        "https": {**HTTP, **tls},
        "tls": {**BINARY, "hive.server2.authentication": "NONE", **tls},
        "forgetful": {**BINARY, "hive.server2.authentication": "NONE", **NO_TLS, **FORGETFUL},
    }
    if ldap:
        kinds["http_strict"] = {**HTTP, "hive.server2.authentication": "LDAP", **NO_TLS}
    for name, kind in kinds.items():
        ports[name] = free_port()
        for key in ("hive.server2.thrift.port", "hive.server2.thrift.http.port"):
            kind[key] = str(ports[name])
        conf = jvm.org.apache.hadoop.hive.conf.HiveConf(first)
        for key, value in kind.items():
            conf.set(key, value)
        server = server_class(session)
        server.init(conf)
        server.start()
    print(json.dumps(ports), file=report, flush=True)
    sys.stdin.read()
    first_server.context.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), *sys.argv[4:])
