"""A real KDC for tests: MIT's krb5kdc with two realms, on the loopback interface, without a service or root's files."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import free_port, wait_until

SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
REALM, FOREIGN = "A.TEST", "B.TEST"
PASSWORDS = {"ada": "ada's", "bob": "bob's"}
LOCAL = "127.0.0.1"

_CLIENTS = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
default_ccache_name = FILE:{folder}/ccache
{more}
[realms]
{realm} = {{
 kdc = {address}
}}
{foreign} = {{
 kdc = {address}
}}
[domain_realm]
localhost = {realm}
"""
_SERVER = """\
[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = {address}
[realms]
{realm} = {{
 database_name = {folder}/{realm}
 key_stash_file = {folder}/{realm}.stash
 max_life = 10h
}}
{foreign} = {{
 database_name = {folder}/{foreign}
 key_stash_file = {folder}/{foreign}.stash
}}
"""


def available() -> None:
    """Skips the test where there is no KDC, or nothing that speaks with one."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=SBIN) is None]
    if missing:
        pytest.skip("MIT's KDC is missing (Debian's packages krb5-kdc, krb5-admin-server and krb5-user)")
    pytest.importorskip("gssapi", reason="the package gssapi is missing: scripts/setup", exc_type=ImportError)


class Kdc:
    """A running KDC. Its users have PASSWORDS in both realms, and each realm trusts the other one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"{LOCAL}:{free_port()}"
        self.config = self.write_config("krb5.conf")
        places = {"address": self.address, "realm": REALM, "foreign": FOREIGN, "folder": folder}
        (folder / "kdc.conf").write_text(_SERVER.format(**places), encoding="utf-8")
        trust = [f"addprinc -pw trust krbtgt/{a}@{b}" for a, b in ((REALM, FOREIGN), (FOREIGN, REALM))]
        for realm in (REALM, FOREIGN):
            self._run("kdb5_util", "-r", realm, "create", "-s", "-W", "-P", "master")
            self.administer(*(f'addprinc -pw "{PASSWORDS[user]}" {user}' for user in PASSWORDS), *trust, realm=realm)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def write_config(self, name: str, more: str = "", address: str = "", realm: str = REALM) -> Path:
        """A configuration of clients and services: of another default realm, or with another KDC."""
        path = self.folder / name
        foreign = FOREIGN if realm == REALM else REALM
        places = {"address": address or self.address, "realm": realm, "foreign": foreign, "folder": self.folder}
        path.write_text(_CLIENTS.format(more=more, **places), encoding="utf-8")
        return path

    @property
    def environment(self) -> dict[str, str]:
        own = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}
        return {**os.environ, **own, "KRB5RCACHEDIR": str(self.folder), "PATH": SBIN}

    def _run(self, *command: str, given: str = "") -> str:
        done = subprocess.run(command, input=given, text=True, capture_output=True, env=self.environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def administer(self, *commands: str, realm: str = REALM) -> str:
        """Runs commands of kadmin."""
        return self._run("kadmin.local", "-r", realm, given="".join(f"{each}\n" for each in commands))

    def keytab(self, name: str, *principals: str, realm: str = REALM) -> Path:
        """A new file with new keys for these principals, which are created."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        for principal in principals:
            self.administer(f"addprinc -randkey {principal}", f"ktadd -k {path} {principal}", realm=realm)
        return path

    def log_in(self, user: str, name: str = "ccache", lifetime: str = "1h") -> Path:
        """A new file with a user's ticket. `user`: with the realm, or of REALM."""
        path = self.folder / name
        password = PASSWORDS[user.partition("@")[0]]
        self._run("kinit", "-l", lifetime, "-c", f"FILE:{path}", user, given=f"{password}\n")
        return path

    def start(self) -> None:
        command = [shutil.which("krb5kdc", path=SBIN) or "krb5kdc", "-n", "-r", REALM, "-r", FOREIGN]
        with open(self.folder / "kdc.log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, "-P", str(self.folder / "pid")], stdout=log, stderr=log, env=self.environment
            )
        wait_until(self._answers, what=f"krb5kdc, whose log is {self.folder / 'kdc.log'}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "krb5kdc has ended"
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)


@contextlib.contextmanager
def variables(given: dict[str, str]) -> Iterator[None]:
    """Sets environment variables, which libkrb5 reads at each call."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
