"""A server that answers as S3 does (moto), with one bucket, and Spark's settings for it."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from deployments import program
from jars import S3_LOCK, jar
from processes import START_SECONDS, Program, free_port, wait_until

LOOPBACK = "127.0.0.1"
BUCKET = "lake"
URL = f"s3a://{BUCKET}"
ARCHIVES = ("hadoop-aws", "bundle", "analyticsaccelerator-s3", "spark-hadoop-cloud_2.13")
MOVED = {"spark.hadoop.fs.s3a.committer.magic.enabled": "false"}
"""With this setting, Spark moves files when a job commits. Otherwise S3A's committer "magic" writes them where they
stay; Spark 4.1 chooses it if the archive spark-hadoop-cloud is there."""
_CALL_SECONDS = 60


@dataclass(frozen=True)
class Store:
    """A running server. Its objects can be changed past Spark."""

    endpoint: str

    def files(self, directory: str) -> list[str]:
        """The keys below a directory that Spark would read, sorted."""
        query = urlencode({"list-type": "2", "prefix": f"{directory}/", "max-keys": "1000"})
        listed = ElementTree.fromstring(self._call("GET", f"/{BUCKET}?{query}"))
        keys = [each.text or "" for each in listed.iter() if each.tag.endswith("}Key")]
        return sorted(key for key in keys if not key.rpartition("/")[2].startswith(("_", ".")) and key[-1] != "/")

    def copy(self, source: str, target: str) -> None:
        self._call("PUT", f"/{BUCKET}/{quote(target)}", {"x-amz-copy-source": quote(f"/{BUCKET}/{source}")})

    def remove(self, key: str) -> None:
        self._call("DELETE", f"/{BUCKET}/{quote(key)}")

    def create_bucket(self) -> None:
        self._call("PUT", f"/{BUCKET}")

    def _call(self, method: str, path: str, headers: dict[str, str] | None = None) -> bytes:
        # The server checks no signature, but removes nothing for a caller without a name.
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/s3/aws4_request"}
        request = urllib.request.Request(self.endpoint + path, headers=signed | (headers or {}), method=method)
        with urllib.request.urlopen(request, timeout=_CALL_SECONDS) as answer:
            return bytes(answer.read())

    def spark_settings(self) -> dict[str, str]:
        """Raises FileNotFoundError if the archives were not downloaded."""
        return {
            "spark.jars": ",".join(str(jar(artifact, lock=S3_LOCK)) for artifact in ARCHIVES),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": "anybody",
            "spark.hadoop.fs.s3a.secret.key": "anything",
            "spark.sql.warehouse.dir": f"{URL}/warehouse",
        }


@contextlib.contextmanager
def running_store(home: Path) -> Iterator[Store]:
    """Keeps its objects in memory. Skips the test if the server is not installed."""
    port = free_port()
    server = Program([str(program("moto_server")), "-H", LOOPBACK, "-p", str(port)], stderr=home / "s3.log")
    store = Store(f"http://{LOOPBACK}:{port}")

    def answers() -> bool:
        with contextlib.suppress(OSError):
            store.create_bucket()
            return True
        return False

    try:
        wait_until(answers, START_SECONDS, "the S3 server")
        yield store
    finally:
        server.stop()
