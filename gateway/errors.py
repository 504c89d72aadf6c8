"""Errors that a client sees: each carries a SQLSTATE, names the object, and says what to do."""

from __future__ import annotations


class FreshgateError(Exception):
    """An error for the client.

    `sqlstate` is five characters of ISO/IEC 9075; `message` names the object and says what to do. `cause` is what
    Spark said, where Spark said it.
    """

    sqlstate = "HY000"

    def __init__(self, message: str, sqlstate: str | None = None, cause: str | None = None) -> None:
        super().__init__(message if cause is None else f"{message} Spark said: {cause}")
        if sqlstate is not None:
            self.sqlstate = sqlstate


class SyntaxRefused(FreshgateError):
    """A statement of ours that does not follow its grammar."""

    sqlstate = "42601"


class NoSuchView(FreshgateError):
    sqlstate = "42P01"


class NoSuchTask(FreshgateError):
    """No task of that id runs or waits."""

    sqlstate = "42704"


class NameTaken(FreshgateError):
    sqlstate = "42P07"


class NotAllowed(FreshgateError):
    """What nobody may do to a materialized view or its storage, or what this user may not."""

    sqlstate = "42809"


class DefinitionRefused(FreshgateError):
    """A definition that Spark, or the rules of materialized views, do not accept."""

    sqlstate = "42P16"


class NotFresh(FreshgateError):
    """A read of a view that must not be served as it is, and that its settings do not let a read refresh."""

    sqlstate = "55000"


class RefreshFailed(FreshgateError):
    sqlstate = "58000"


class LoginDenied(FreshgateError):
    """The gateway does not let this user in. The message does not tell whether the user exists."""

    sqlstate = "28000"


class LoginAbandoned(LoginDenied):
    """Nobody waits for the answer; who leaves before it has tried a password all the same."""

    def __init__(self) -> None:
        super().__init__("The client left before its login was answered.")


class LoginUnchecked(FreshgateError):
    """The login may be right, but nobody can check it at the moment."""

    sqlstate = "58000"


class UpstreamLost(FreshgateError):
    """The Spark Thrift Server went away while it was needed."""

    sqlstate = "08S01"


class UpstreamMisspoken(UpstreamLost):
    """The server speaks another protocol than the settings say: it will not come right by waiting."""

    def __init__(self, place: object, spoken: str) -> None:
        setting = {
            "HTTP": "Set upstream.transport to http, and upstream.http_path to its path",
            "TLS": "Set upstream.tls to true",
        }[spoken]
        super().__init__(
            f"The server at {place} speaks {spoken}, and the gateway does not. {setting}, or name another port."
        )


class StatementFailed(FreshgateError):
    """Spark refused or failed a statement. Carries Spark's own message and SQLSTATE."""


class LimitReached(FreshgateError):
    """A bound of the gateway's; names the setting."""

    sqlstate = "54000"


class Stopping(FreshgateError):
    """The gateway is about to stop."""

    sqlstate = "57P01"
