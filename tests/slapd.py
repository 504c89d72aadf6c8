"""A real OpenLDAP server for tests: Debian's slapd with its own directory, on the loopback interface."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import trustme
from processes import wait_until

SLAPD = shutil.which("slapd", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])) or "/usr/sbin/slapd"
SCHEMAS = Path("/etc/ldap/schema")
MODULES = Path("/usr/lib/ldap")
SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
GROUPS = f"ou=groups,{SUFFIX}"
PARTNERS = f"ou=partners,{SUFFIX}"
ADMINISTRATOR = f"cn=admin,{SUFFIX}"
ADMINISTRATOR_PASSWORD = "admin's secret"
PASSWORDS = {"ada": "ada's secret", "eve": "eve's secret", "o,d+d": "odd's secret", "svc": "svc's secret"}

_CONFIGURATION = """\
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/inetorgperson.schema
modulepath {modules}
moduleload back_mdb
moduleload memberof
pidfile {folder}/slapd.pid
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.pem
# Some servers are configured so: an empty password is accepted as an anonymous login.
allow bind_anon_cred bind_anon_dn
database mdb
maxsize 16777216
suffix "{suffix}"
rootdn "{administrator}"
rootpw "{password}"
directory {folder}/data
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by * read
"""

_ENTRIES = f"""\
dn: {SUFFIX}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: {GROUPS}
objectClass: organizationalUnit
ou: groups

dn: {PARTNERS}
objectClass: organizationalUnit
ou: partners

dn: uid=ada,{PARTNERS}
objectClass: inetOrgPerson
uid: ada
cn: Another Ada
sn: Byron
userPassword: another ada's secret

dn: uid=ada,{PEOPLE}
objectClass: inetOrgPerson
uid: ada
cn: Ada
sn: Lovelace
userPassword: ada's secret

dn: uid=eve,{PEOPLE}
objectClass: inetOrgPerson
uid: eve
cn: Eve
sn: Dropper
userPassword: eve's secret

dn: uid=svc,{PEOPLE}
objectClass: inetOrgPerson
uid: svc
cn: Service
sn: Service
userPassword: svc's secret

dn: uid=o\\,d\\+d,{PEOPLE}
objectClass: inetOrgPerson
uid: o,d+d
cn: Odd
sn: Odd
userPassword: odd's secret

dn: cn=analysts,{GROUPS}
objectClass: groupOfNames
cn: analysts
member: uid=ada,{PEOPLE}
member: uid=o\\,d\\+d,{PEOPLE}

dn: cn=staff,{GROUPS}
objectClass: groupOfNames
cn: staff
member: cn=analysts,{GROUPS}
member: cn=company,{GROUPS}

dn: cn=company,{GROUPS}
objectClass: groupOfNames
cn: company
member: cn=staff,{GROUPS}

dn: cn=others,{GROUPS}
objectClass: groupOfNames
cn: others
member: uid=eve,{PEOPLE}
"""


class Slapd:
    """A running slapd. `stop` ends it."""

    def __init__(self, folder: Path) -> None:
        (folder / "data").mkdir(parents=True)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
        self.ca = folder / "ca.pem"
        configuration = folder / "slapd.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                schemas=SCHEMAS,
                modules=MODULES,
                folder=folder,
                suffix=SUFFIX,
                administrator=ADMINISTRATOR,
                password=ADMINISTRATOR_PASSWORD,
            ),
            encoding="utf-8",
        )
        self.port, self.tls_port = _free_ports(2)
        urls = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port}"
        self._log = open(folder / "slapd.log", "wb")  # noqa: SIM115 - closed by stop
        self._process = subprocess.Popen(
            [SLAPD, "-d", "0", "-h", urls, "-f", str(configuration)],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        wait_until(self._answers, what=f"slapd, whose log is {folder / 'slapd.log'}")
        # Entries are added through the server, so that its overlay maintains memberOf.
        subprocess.run(
            ["ldapadd", "-x", "-H", self.url, "-D", ADMINISTRATOR, "-w", ADMINISTRATOR_PASSWORD],
            input=_ENTRIES,
            text=True,
            check=True,
            capture_output=True,
        )

    @property
    def url(self) -> str:
        return f"ldap://localhost:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://localhost:{self.tls_port}"

    def _answers(self) -> bool:
        assert self._process.poll() is None, "slapd has ended"
        try:
            for port in (self.port, self.tls_port):
                socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._log.close()


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, because slapd cannot choose one itself."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
