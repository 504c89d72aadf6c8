"""Errors for clients: each carries a SQLSTATE, names the object, and says what to do."""

from __future__ import annotations

SPARK_SAID = " Spark said: "
"""Precedes Spark's message in that of an error."""


class FreshgateError(Exception):
    """An error for the client.

    `sqlstate` has the five characters of ISO/IEC 9075; `message` names the object and says what to do. `cause` is
    Spark's message, if there is one.
    """

    sqlstate = "HY000"

    def __init__(self, message: str, sqlstate: str | None = None, cause: str | None = None) -> None:
        super().__init__(message if cause is None else f"{message}{SPARK_SAID}{cause}")
        if sqlstate is not None:
            self.sqlstate = sqlstate


class SyntaxRefused(FreshgateError):
    """One of the gateway's own statements does not follow its grammar."""

    sqlstate = "42601"


class NoSuchView(FreshgateError):
    sqlstate = "42P01"


class NoSuchTask(FreshgateError):
    """No task with this id runs or waits."""

    sqlstate = "42704"


class NameTaken(FreshgateError):
    sqlstate = "42P07"


class NotAllowed(FreshgateError):
    """This is not allowed on a materialized view or its storage, for this user or for anybody."""

    sqlstate = "42809"


class DefinitionRefused(FreshgateError):
    """Spark, or a rule for materialized views, refuses a definition."""

    sqlstate = "42P16"


class NotFresh(FreshgateError):
    """A stale view must not be read, and its settings do not let a read refresh it."""

    sqlstate = "55000"


class RefreshFailed(FreshgateError):
    sqlstate = "58000"


class OwnerLost(RefreshFailed):
    """A view cannot be refreshed in the name of its owner, whom Spark does not know any more."""

    sqlstate = "28000"


class LoginDenied(FreshgateError):
    """The gateway refuses a user's login. The message does not reveal whether the user exists."""

    sqlstate = "28000"


class LoginAbandoned(LoginDenied):
    """The client left before the answer. It counts as refused, because the client has tried a password."""

    def __init__(self) -> None:
        super().__init__("The client left before its login was answered.")


class LoginUnchecked(FreshgateError):
    """The login may be right, but cannot be checked at the moment."""

    sqlstate = "58000"


class UpstreamLost(FreshgateError):
    """The Spark Thrift Server went away while it was needed."""

    sqlstate = "08S01"


class NoTicket(UpstreamLost):
    """The gateway has no ticket of Kerberos for the server, which may be well."""

    sqlstate = "58000"


class UpstreamProtocolMismatch(UpstreamLost):
    """The server speaks another protocol than the settings say, so waiting does not help."""

    def __init__(self, place: object, spoken: str) -> None:
        setting = {
            "HTTP": "Add ;transportMode=http;httpPath=PATH to its JDBC URL in upstream.address",
            "TLS": "Add ;ssl=true to its JDBC URL in upstream.address",
        }[spoken]
        super().__init__(
            f"The server at {place} speaks {spoken}, but the settings say otherwise. {setting}, or name another port."
        )


class StatementFailed(FreshgateError):
    """Spark refused or failed a statement. Carries Spark's own message and SQLSTATE."""


class SparkLost(StatementFailed):
    """Kyuubi has no Spark for the session, so each later statement in it would fail too. The SQLSTATE is 08003
    if the statement certainly was not sent to Spark, and 08007 if it may have been carried out."""


class Overtaken(FreshgateError):
    """A text that stood in for a client's has ended, but a write meanwhile may have made its rows wrong."""


class LimitReached(FreshgateError):
    """A limit of the gateway; the message names the setting."""

    sqlstate = "54000"


class Stopping(FreshgateError):
    """The gateway is stopping."""

    sqlstate = "57P01"


def without_cause(message: str) -> str:
    """The message of an error without what Spark has said, which may quote rows and definitions."""
    return message.partition(SPARK_SAID)[0]
