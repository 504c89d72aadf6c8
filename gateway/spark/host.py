"""The embedded engine's process: PySpark hosts Spark's own Thrift server.

Run as `python -m gateway.spark.host`. The first line of standard input is a JSON object (see `HostOptions`). The first
line of standard output is a JSON object: {"port": n, "warehouse": URI, "derby": true or false} once the server accepts
connections, or {"error": text}. `derby` says whether the metastore is the embedded Derby. After that, each input line
is a request, with an id chosen by the parent:

- {"id": n, "group": text}, with a Spark job group, is answered by {"id": n, "progress": ...}: null, or the fields of
  `JobProgress`.
- The same with "cancel": true has no answer. It cancels the group's jobs, including those submitted later.
- {"id": n, "session": id, "plan": text} is answered by {"id": n, "plan": ...}, the text's plan in that session as
  `plan_writing` writes it (at the given "stage", or optimized), or by {"id": n, "error": text}.

The process ends when standard input ends, so it never outlives its parent, however that died. The JVM in turn ends with
this process, because PySpark's Java side ends with its own standard input.

Spark's log goes to `engine.log`, and everything else that Java and Python print to `engine.out`, both in the data
directory.

Tests: `test_engine`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TextIO

from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from gateway.config import LOCAL_MASTER
from gateway.mv.ports import JobProgress
from gateway.spark import data_directory
from gateway.spark.guard_code import install
from gateway.spark.plan_writing import PlanWriting
from gateway.spark.stages import ACTIVE, PENDING, RUNNING, job_progress

LOOPBACK = "127.0.0.1"
LOCK_WAIT_SECONDS = 30.0  # A JVM whose gateway was killed ends well within this time.
JVM_END_SECONDS = 10.0  # Spark's orderly shutdown takes less than a second; with tasks that ignore it, it never ends.
EXIT_FAILED = 1
EXIT_JVM_DIED = 3
READ_BYTES = 65536
CONNECTION_URL = "javax.jdo.option.ConnectionURL"
REQUESTS_MAX = 100
"""Requests that wait while Spark does not answer. More are dropped: their askers have given up long before."""

_LOCAL_JAR = re.compile(r"(?:(?:file|local):(?://(?=/))?)?([^:]+)")
"""A path, alone or as `file:` or `local:`, which Spark reads on each machine."""

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.filePermissions = rw-------
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


class HostError(Exception):
    """The engine cannot start. The message is for the person who starts the gateway."""


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The parent's options."""

    data_dir: Path
    parent: int
    spark: dict[str, str]
    guard: dict[str, str] = field(default_factory=dict)
    """Spark's settings for the guard of the storage database. Empty: there is none."""

    @classmethod
    def read(cls, line: bytes) -> HostOptions:
        raw = json.loads(line)
        guard = raw.get("guard", {})
        return cls(Path(raw["data_dir"]), raw["parent"], raw["spark"], guard)

    @property
    def scratch(self) -> Path:
        return self.data_dir / data_directory.SCRATCH


def spark_settings(options: HostOptions) -> dict[str, str]:
    """Returns all Spark settings of the engine; the user's settings take precedence."""
    data = options.data_dir
    java = {
        "derby.system.home": data,
        # Only this account reads the metastore's files.
        "derby.storage.useDefaultFilePermissions": "false",
        "java.io.tmpdir": options.scratch,
        "log4j2.configurationFile": (data / "log4j2.properties").as_uri(),
    }
    settings = {
        "spark.master": LOCAL_MASTER,
        "spark.app.name": "freshgate",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"file:{data / data_directory.WAREHOUSE}",
        f"spark.hadoop.{CONNECTION_URL}": "jdbc:derby:;databaseName=metastore;create=true",
        # Derby is in this process, so a connection costs nothing. A connection pool does not survive cancelled
        # statements: the interrupt breaks a connection, which is never returned, until everybody waits forever.
        "spark.hadoop.datanucleus.connectionPoolingType": "NONE",
        # An interrupt may also leave a metastore thread without direct SQL permanently. The fallback (JDO) filters
        # partitions only by strings unless the first setting is on; the second one fetches all partitions if that fails
        # too. Every read of a materialized view filters by a number.
        "spark.hadoop.hive.metastore.integral.jdo.pushdown": "true",
        "spark.sql.hive.metastorePartitionPruningFallbackOnException": "true",
        "spark.hadoop.hive.exec.scratchdir": f"file:{options.scratch / 'hive'}",
        "spark.local.dir": str(options.scratch),
        # Each session has its own cache of file listings and would not see another session's writes.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
        # A refresh runs in a scheduler pool of its own beside the clients' queries, instead of before them.
        "spark.scheduler.mode": "FAIR",
        **{f"spark.hadoop.{key}": value for key, value in SERVER_SETTINGS.items()},
    }
    if options.spark.get("spark.master", LOCAL_MASTER).startswith("local"):
        settings["spark.driver.host"] = LOOPBACK
        settings["spark.driver.bindAddress"] = LOOPBACK
    settings.update(options.spark)
    settings.update(options.guard)
    if jars := settings.get("spark.jars"):
        # The server closes the class loader of these jars with its first session (Hive's SessionState.close); classes
        # not loaded by then are missing from then on. Jars on the class path stay available.
        before = settings.get("spark.driver.extraClassPath")
        paths = [*local_paths(jars), *([before] if before else [])]
        if paths:
            settings["spark.driver.extraClassPath"] = os.pathsep.join(paths)
    properties = " ".join(f'"-D{key}={_escaped(value)}"' for key, value in java.items())
    # A server that ran out of memory once continues with threads missing: a restart is better.
    ours = f"-XX:+ExitOnOutOfMemoryError {properties}"
    theirs = options.spark.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{ours} {theirs}".strip()
    return settings


def local_paths(jars: str) -> list[str]:
    """The paths of those jars of `spark.jars` that lie on this machine; a class path cannot name the others."""
    found = (_LOCAL_JAR.fullmatch(jar.strip()) for jar in jars.split(","))
    return [jar[1] for jar in found if jar is not None]


# The server is reachable only by the gateway, on this machine. Port 0: the system picks a free one. Each client
# connection holds one worker thread. An asynchronous statement that finds neither a thread nor room in the queue is
# refused.
#
# Hive's client of an embedded metastore belongs to a thread and a user, and creating one takes longer than most of its
# calls. By default a thread ends after ten idle seconds, and each statement starts a new one until the maximum is
# reached. With impersonation each session has its own user, so alternating statements of two sessions would each create
# a client. Impersonation protects nothing here, because asynchronous statements run as the server's own user anyway.
SERVER_SETTINGS = {
    "hive.server2.transport.mode": "binary",
    "hive.server2.thrift.bind.host": LOOPBACK,
    "hive.server2.thrift.port": "0",
    "hive.server2.thrift.max.worker.threads": "4000",
    "hive.server2.async.exec.threads": "100",
    "hive.server2.async.exec.keepalive.time": "3600s",
    "hive.server2.async.exec.wait.queue.size": "4000",
    "hive.server2.enable.doAs": "false",
}
POOL_SETTING = "hive.server2.async.exec."
"""What of SERVER_SETTINGS `engine.spark.hadoop.` may override: how many statements run at once, and how many wait."""


def _escaped(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"')


def lock_data_dir(options: HostOptions) -> int:
    """Locks the data directory and returns the lock's file descriptor, which the JVM inherits.

    Derby allows one JVM. The lock lasts while any process holds the descriptor, that is until the JVM of a killed
    gateway has ended; in that case this waits. If the other gateway is alive, it fails at once.
    """
    path = options.data_dir / data_directory.LOCK
    descriptor = data_directory.open_private(path, os.O_RDWR)
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            owner = path.read_text(encoding="ascii").strip()
            other = owner.isdigit() and int(owner) != options.parent and _is_alive(int(owner))
            if other or time.monotonic() > deadline:
                raise HostError(
                    f"The data directory {options.data_dir} is in use by another gateway (process "
                    f"{owner or 'unknown'}). Stop that gateway, or choose another directory with --data-dir."
                ) from None
            time.sleep(0.1)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(options.parent).encode("ascii"))
    return descriptor


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # The process is alive and belongs to another user.
    return True


def prepare_data_dir(options: HostOptions) -> None:
    """Removes what a killed engine left behind, and creates the directories that Java expects. The lock must be
    held."""
    shutil.rmtree(options.scratch, ignore_errors=True)
    options.scratch.mkdir(mode=data_directory.OWNER_ONLY)
    (options.data_dir / data_directory.WAREHOUSE).mkdir(mode=data_directory.OWNER_ONLY, exist_ok=True)
    log = str(options.data_dir / "engine.log").replace("\\", "\\\\")
    written = data_directory.open_private(options.data_dir / "log4j2.properties", os.O_WRONLY | os.O_TRUNC)
    with open(written, "w", encoding="utf-8") as file:
        file.write(LOG4J.format(log=log))


PLANS_MAX = 4
"""Waiting requests for plans. Whoever asks for more does without."""


@dataclass(frozen=True, slots=True)
class ThriftServer:
    """A running Thrift server, and the Spark that it serves."""

    port: int
    context: SparkContext
    java: JavaObject
    warehouse: str
    """The URI of the directory of new databases."""
    derby: bool
    """Whether the metastore is a Derby in this process."""


def start_server(options: HostOptions, lock: int, jvm: list[subprocess.Popen[bytes]]) -> ThriftServer:
    """Starts Spark and its Thrift server. Adds the JVM's process to `jvm` at once."""
    for name in INHERITED_SETTINGS:
        os.environ.pop(name, None)
    conf = SparkConf(loadDefaults=False).setAll(list(spark_settings(options).items()))
    gateway = launch_gateway(conf, popen_kwargs={"pass_fds": (lock,)})
    jvm.append(gateway.proc)
    threading.Thread(target=_end_with_jvm, args=(gateway.proc,), daemon=True).start()
    let_sessions_close(gateway)
    system = gateway.jvm.java.lang.System
    for key, value in SERVER_SETTINGS.items():
        # A property of the system precedes Spark's settings.
        chosen = options.spark.get(f"spark.hadoop.{key}") if key.startswith(POOL_SETTING) else None
        system.setProperty(key, chosen or value)
    session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    if options.guard:
        install(gateway, session._jsparkSession)
    # Opens the metastore now, and creates it in a new directory. Otherwise the first client would wait for that, or be
    # the one to learn that it fails.
    session.sql("SHOW DATABASES").collect()
    server_class = gateway.jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    # False: a server that fails to start raises here instead of ending the JVM silently.
    server = server_class.startWithSparkSession(session._jsparkSession, False)
    port = _port_of(server)
    with socket.create_connection((LOOPBACK, port), timeout=10):
        warehouse = session.conf.get("spark.sql.warehouse.dir") or ""
        return ThriftServer(port, session.sparkContext, server, warehouse, _uses_derby(session))


def _uses_derby(session: SparkSession) -> bool:
    """Asks Spark, because settings may also come from a hive-site.xml."""
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    return not hadoop.get("hive.metastore.uris") and str(hadoop.get(CONNECTION_URL)).startswith("jdbc:derby:")


_NO_HIVE_FUNCTIONS = """
    java.lang.reflect.Field state =
        Class.forName("org.apache.hadoop.hive.ql.metadata.Hive").getDeclaredField("didRegisterAllFuncs");
    state.setAccessible(true);
    ((java.util.concurrent.atomic.AtomicInteger) state.get(null)).set(2);
"""


def let_sessions_close(gateway: JavaGateway) -> None:
    """Keeps CloseSession from hanging.

    Closing a session makes Hive's client register Hive's own functions, once per process. That fails, because Spark
    ships without hive-llap-common (SPARK-51041), and leaves the registration marked as in progress: each later close
    that gets there waits for it forever. Spark uses none of those functions, so they are marked as registered (2 in
    Hive 2.3.10's Hive.registerAllFunctionsOnce). py4j would turn the marker, a Java number, into a Python one, so the
    script runs inside Java, compiled with the compiler that Spark ships.
    """
    script = gateway.jvm.org.codehaus.janino.ScriptEvaluator()
    thrown = gateway.new_array(gateway.jvm.java.lang.Class, 1)
    thrown[0] = gateway.jvm.java.lang.Class.forName("java.lang.Exception")
    script.setThrownExceptions(thrown)
    try:
        script.cook(_NO_HIVE_FUNCTIONS)
        script.evaluate(gateway.new_array(gateway.jvm.java.lang.Object, 0))
    except Py4JJavaError as error:
        # Another Spark may have another Hive, without this marker: a session that may hang is better than no engine.
        print(f"CloseSession could not be patched and may hang: {explain(error)}", flush=True)


# A shell configured for another Spark must not point this one at the wrong jars, port or interface.
INHERITED_SETTINGS = (
    "SPARK_HOME",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "HIVE_SERVER2_THRIFT_PORT",
    "HIVE_SERVER2_THRIFT_BIND_HOST",
)


def _port_of(server: JavaObject) -> int:
    for service in server.getServices():
        if service.getName() == "ThriftBinaryCLIService":
            return int(service.getPortNumber())
    raise HostError("Spark started no binary Thrift service. Remove the setting hive.server2.transport.mode.")


def _end_with_jvm(process: subprocess.Popen[bytes]) -> NoReturn:
    process.wait()
    os._exit(EXIT_JVM_DIED)


class StatusStore:
    """Spark's record of its jobs and stages, read over py4j. Raises Py4JError if Spark's classes differ."""

    def __init__(self, context: SparkContext) -> None:
        spark = context._jsc.sc()
        packages = context._gateway.jvm
        self._context = spark
        self._tracker = spark.statusTracker()
        self._store = spark.statusStore()
        # One call per object: py4j would take a round trip for each of its fields.
        self._mapper = packages.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(packages.com.fasterxml.jackson.module.scala.DefaultScalaModule())
        status = packages.org.apache.spark.status.api.v1.StageStatus
        self._open = packages.java.util.ArrayList()
        for name in (ACTIVE, PENDING):
            self._open.add(status.valueOf(name))
        self._no_quantiles = context._gateway.new_array(packages.double, 0)
        self._no_tasks = packages.java.util.ArrayList()

    def progress(self, group: str) -> JobProgress | None:
        """The progress of a group's jobs, including finished ones; None if Spark knows none."""
        jobs = [self._read(self._store.job(number)) for number in self._tracker.getJobIdsForGroup(group)]
        runs = any(job["status"] == RUNNING for job in jobs)
        return job_progress(jobs, self._open_stages() if runs else ())

    def cancel(self, group: str) -> None:
        """Cancels the jobs of a group, including those submitted later."""
        self._context.cancelJobGroupAndFutureJobs(group)

    def _open_stages(self) -> Any:
        return self._read(self._store.stageList(self._open, False, False, self._no_quantiles, self._no_tasks))

    def _read(self, figures: JavaObject) -> Any:
        return json.loads(self._mapper.writeValueAsString(figures))


class ChildReport:
    """Standard output, one line for each answer, from several threads."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def send(self, answer: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):  # Without a parent this process ends anyway.
            print(json.dumps(answer), file=self._out, flush=True)


def _answer(requests: queue.Queue[bytes], server: ThriftServer, report: ChildReport) -> None:
    """Answers one request after the other. If anything fails, the answer is null: the asker can do without it."""
    store: StatusStore | None = None
    reported = False
    plans: queue.Queue[dict[str, Any]] = queue.Queue(PLANS_MAX)
    # Planning takes longer than the asker of a progress waits.
    threading.Thread(target=_answer_plans, args=(plans, server, report), daemon=True).start()
    while True:
        request = _request_of(requests.get())
        if request is None:
            continue
        if "plan" in request:
            try:
                plans.put_nowait(request)
            except queue.Full:
                report.send({"id": request["id"], "error": "Too many plans are asked for."})
            continue
        progress = None
        try:
            store = store or StatusStore(server.context)
            if request.get("cancel"):
                store.cancel(request["group"])
                continue
            progress = store.progress(request["group"])
        except Exception as error:  # Another Spark may have another status store: the engine works without it.
            if not reported:
                print(f"Cannot read the progress of statements: {explain(error)}", flush=True)
            reported = True
        report.send({"id": request["id"], "progress": asdict(progress) if progress is not None else None})


def _answer_plans(requests: queue.Queue[dict[str, Any]], server: ThriftServer, report: ChildReport) -> None:
    writing: PlanWriting | None = None
    while True:
        request = requests.get()
        try:
            writing = writing or PlanWriting(server.context, server.java)
            plan = writing.plan(request["session"], request["plan"], request.get("stage", "optimized"))
            report.send({"id": request["id"], "plan": plan})
        except Exception as error:  # A text that Spark refuses, or another Spark: whoever asks does without a plan.
            report.send({"id": request["id"], "error": explain(error)})


def _request_of(line: bytes) -> dict[str, Any] | None:
    """The request in a line; None if the line is not one."""
    try:
        request = json.loads(line)
    except ValueError:
        return None
    kinds = ({"id", "group"}, {"id", "session", "plan"})
    return request if isinstance(request, dict) and any(kind <= request.keys() for kind in kinds) else None


def _lines(descriptor: int) -> Iterator[bytes]:
    """Yields input lines until the end. Not sys.stdin: at an early exit Python would wait forever for its lock, which
    the reading thread holds."""
    rest = b""
    while chunk := os.read(descriptor, READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _end_with_parent(
    lines: Iterator[bytes], requests: queue.Queue[bytes], jvm: list[subprocess.Popen[bytes]]
) -> NoReturn:
    """Queues requests, and ends the JVM and then this process when standard input ends."""
    for line in lines:
        with contextlib.suppress(queue.Full):
            requests.put_nowait(line)
    for process in jvm:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(JVM_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    # Not sys.exit, because the main thread may be inside a call to the JVM that never returns.
    os._exit(0)


def explain(error: BaseException) -> str:
    """Returns the reason in one or two lines; the stack trace is in engine.out."""
    if isinstance(error, Py4JJavaError):
        cause: Any = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).strip()
    if isinstance(error, PySparkRuntimeError) and error.getCondition() == "JAVA_GATEWAY_EXITED":
        printed = Path("engine.out").read_text(encoding="utf-8", errors="replace")
        reasons = re.findall(r"(?:Error|Exception): (.+)", printed)
        return f"Java ended before Spark was up. {reasons[0] if reasons else 'See engine.out.'}"
    return str(error).strip() or type(error).__name__


def _print_to(path: Path) -> None:
    """Sends what this process and Java print to a new file. Raises OSError."""
    out = data_directory.open_private(path, os.O_WRONLY | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)


def main() -> int:
    """Runs the engine until standard input ends."""
    lines = _lines(0)
    options = HostOptions.read(next(lines, b""))
    report = ChildReport(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    jvm: list[subprocess.Popen[bytes]] = []
    requests: queue.Queue[bytes] = queue.Queue(REQUESTS_MAX)
    try:
        os.chdir(options.data_dir)
        _print_to(options.data_dir / "engine.out")
        watch = threading.Thread(target=_end_with_parent, args=(lines, requests, jvm), daemon=True)
        watch.start()
        lock = lock_data_dir(options)
        prepare_data_dir(options)
        server = start_server(options, lock, jvm)
    except (HostError, OSError, Py4JError, PySparkException) as error:
        sys.excepthook(type(error), error, error.__traceback__)
        report.send({"error": explain(error)})
        return EXIT_FAILED
    report.send({"port": server.port, "warehouse": server.warehouse, "derby": server.derby})
    # In another thread than the watch, so that a Spark that does not answer cannot keep the process alive.
    threading.Thread(target=_answer, args=(requests, server, report), daemon=True).start()
    watch.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
