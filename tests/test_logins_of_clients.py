"""The table of clients and login methods in docs/how-to/login.md is what tests have shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from processes import ROOT

PAGE = ROOT / "docs" / "how-to" / "login.md"
DRIVERS, TRANSPORTS, END = "drivers/test_", "transports/test_", "end_to_end/test_"
OF_JDBC = f"{DRIVERS}deployments.py::test_hive_jdbc_logs_in_over_each_transport"
OF_PYTHON = f"{DRIVERS}deployments.py::test_python_clients_log_in_with_a_password"
OF_BEELINE = f"{DRIVERS}deployments.py::test_beeline_logs_in_with_a_password"
OF_STATUS = f"{DRIVERS}deployments.py::test_freshgate_status_logs_in_with_a_password"
OF_LDAP = f"{END}ldap_logins.py::test_members_of_the_group_log_in_as_themselves"
OF_TICKETS = f"{DRIVERS}kerberos_logins.py::test_each_jdbc_driver_logs_in_with_each_protection"
OF_PYTHONS_TICKETS = f"{DRIVERS}kerberos_logins.py::test_python_drivers_log_in"
IN_BINARY = f"{DRIVERS}hive_jdbc.py::test_identity_is_that_of_spark"
IN_PYTHON = f"{DRIVERS}python_drivers.py::test_every_type_is_read_in_python"
Proofs = dict[str, dict[str, str]]
"""By method and transport, the test that has shown it."""


def jdbc(**more: dict[str, str]) -> Proofs:
    return {
        "none": {"binary": IN_BINARY},
        "file": {"binary": OF_JDBC, "HTTP": OF_JDBC},
        "Kerberos": {"binary": OF_TICKETS, "HTTP": OF_TICKETS},
        **more,
    }


CLIENTS: dict[str, Proofs] = {
    "Hive JDBC 2.3": jdbc(
        none={"binary": IN_BINARY, "HTTP": f"{TRANSPORTS}http_clients.py::test_jdbc_works_over_http"},
        LDAP={"binary": OF_LDAP},
    ),
    "Hive JDBC 3.1": jdbc(),
    "Hive JDBC 4.0": jdbc(JWT={"HTTP": f"{DRIVERS}deployments.py::test_hive_jdbc_logs_in_with_a_token"}),
    "beeline 2.3": {
        "none": {"binary": f"{DRIVERS}beelines.py::test_beeline_reads_and_lists"},
        "file": {"binary": OF_BEELINE, "HTTP": OF_BEELINE},
        "Kerberos": {"binary": f"{DRIVERS}kerberos_logins.py::test_beeline_logs_in"},
    },
    "beeline 3.1": {
        "none": {"binary": f"{DRIVERS}beelines.py::test_beeline_reads_and_lists"},
        "file": {"binary": OF_BEELINE, "HTTP": OF_BEELINE},
    },
    "PyHive": {
        "none": {"binary": IN_PYTHON, "HTTP": f"{TRANSPORTS}http_clients.py::test_pyhive_works_over_http"},
        "file": {"binary": OF_PYTHON, "HTTP": OF_PYTHON},
        "LDAP": {"binary": OF_LDAP},
        "Kerberos": {"binary": OF_PYTHONS_TICKETS},
    },
    "impyla": {
        "none": {"binary": IN_PYTHON, "HTTP": f"{TRANSPORTS}http_clients.py::test_impyla_works_over_http"},
        "file": {"binary": OF_PYTHON, "HTTP": OF_PYTHON},
        "Kerberos": {"binary": OF_PYTHONS_TICKETS, "HTTP": OF_PYTHONS_TICKETS},
        "JWT": {"HTTP": f"{DRIVERS}deployments.py::test_impyla_logs_in_with_a_token"},
    },
    "SQLAlchemy": {
        "none": {
            "binary": f"{DRIVERS}python_drivers.py::test_sqlalchemy_reads_and_reflects",
            "HTTP": f"{TRANSPORTS}http_clients.py::test_sqlalchemy_works_over_http",
        },
        "file": {"binary": OF_PYTHON, "HTTP": OF_PYTHON},
    },
    "Node's `hive-driver`": {
        "none": {"binary": f"{DRIVERS}node_driver.py::test_the_node_driver_reads_and_lists"},
        "file": {"HTTP": f"{DRIVERS}deployments.py::test_the_node_driver_logs_in_over_http"},
    },
    "`freshgate status`": {
        "none": {
            "binary": f"{TRANSPORTS}tls_clients.py::test_freshgate_status_works_over_tls",
            "HTTP": f"{TRANSPORTS}tls_clients.py::test_freshgate_status_works_over_tls",
        },
        "file": {"binary": OF_STATUS, "HTTP": OF_STATUS},
    },
}
METHODS = ("none", "file", "LDAP", "Kerberos", "JWT")


def table() -> list[str]:
    """The lines of the table that the tests allow."""
    lines = [f"| client | {' | '.join(METHODS)} |", "| --- |" + " --- |" * len(METHODS)]
    for client, proofs in CLIENTS.items():
        cells = [", ".join(proofs.get(method, ())) or "-" for method in METHODS]
        lines.append(f"| {client} | {' | '.join(cells)} |")
    return lines


def test_the_table_says_what_tests_have_shown() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    start = page.index(table()[0])
    assert page[start : start + len(table()) + 1] == [*table(), ""]


def named() -> Iterable[str]:
    return sorted({test for proofs in CLIENTS.values() for ways in proofs.values() for test in ways.values()})


@pytest.mark.parametrize("test", named())
def test_each_named_test_exists(test: str) -> None:
    path, name = test.split("::")
    assert re.search(rf"^def {name}\(", (ROOT / "tests" / path).read_text(encoding="utf-8"), re.MULTILINE), test
