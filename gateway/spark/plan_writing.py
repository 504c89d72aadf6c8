"""Writes the plans of texts in the sessions of the Thrift server in this process's JVM, for `gateway.spark.host`."""

from __future__ import annotations

from pathlib import Path

from py4j.java_gateway import JavaGateway, JavaObject
from pyspark import SparkContext

from gateway.spark.plan_settings import SETTINGS, UNFOLDED

SOURCE = Path(__file__).with_name("PlanWriter.java")
STAGES = {"optimized": SETTINGS, "unfolded": UNFOLDED, "analyzed": SETTINGS}
"""Those of plans, with the settings that they are made with: `unfolded` is optimized without computing anything from
literals, `analyzed` not optimized."""


class PlanWriting:
    """Raises Py4JError if Spark's classes differ."""

    def __init__(self, context: SparkContext, server: JavaObject) -> None:
        java = context._gateway.jvm
        compiler = java.org.codehaus.janino.SimpleCompiler()
        compiler.cook(SOURCE.read_text(encoding="utf-8"))
        writer = compiler.getClassLoader().loadClass("PlanWriter")
        (self._plan,) = (method for method in writer.getMethods() if method.getName() == "plan")
        self._gateway: JavaGateway = context._gateway
        self._settings = {}
        for stage, settings in STAGES.items():
            self._settings[stage] = java.java.util.HashMap()
            self._settings[stage].putAll(settings)
        self._sessions = _sessions_of(server)
        self._contexts = self._sessions.sparkSqlOperationManager().sessionToContexts()

    def plan(self, session: str, text: str, stage: str) -> str:
        """The plan of a text at this stage, one of STAGES, in the session with this id, a UUID, as its user. Executes
        nothing."""
        given = self._sessions, self._contexts, session, text, self._settings[stage], stage == "analyzed"
        arguments = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(given))
        for place, each in enumerate(given):
            arguments[place] = each
        return str(self._plan.invoke(None, arguments))


def _sessions_of(server: JavaObject) -> JavaObject:
    """The server's sessions, and by their handles Spark's."""
    for service in server.getServices():
        if service.getName() == "CLIService":
            for inner in service.getServices():
                if inner.getName() == "SessionManager":
                    return inner
    raise LookupError("Spark's Thrift server has no session manager.")
