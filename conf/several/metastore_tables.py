"""Creates the tables of Hive's metastore in a database, as Hive's schematool does, with the classes of PySpark.

    python3 metastore_tables.py NAME=VALUE...    # settings of Hive: javax.jdo.option.ConnectionURL=...

Tables that exist stay. Without it, Hive creates each table when it is first used, on another connection than the one
whose transaction has locked the tables that it refers to: in PostgreSQL both then wait forever.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pyspark
from pyspark.java_gateway import launch_gateway

HIVE = "org.apache.hadoop.hive.metastore"


def create(settings: dict[str, str]) -> int:
    """Returns the number of classes that have tables."""
    gateway = launch_gateway()
    try:
        jvm = gateway.jvm
        classes = jvm.java.util.HashSet()
        for name in persistent_classes():
            classes.add(f"{HIVE}.model.{name}")
        conf = jvm.java.lang.Class.forName("org.apache.hadoop.hive.conf.HiveConf").newInstance()
        for name, value in {**settings, "datanucleus.schema.autoCreateAll": "true"}.items():
            conf.set(name, value)
        store = jvm.java.lang.Class.forName(f"{HIVE}.ObjectStore")
        store.newInstance().setConf(conf)
        factory = store.getDeclaredMethod("getPMF", gateway.new_array(jvm.java.lang.Class, 0))
        factory.setAccessible(True)
        context = factory.invoke(None, gateway.new_array(jvm.java.lang.Object, 0)).getNucleusContext()
        context.getStoreManager().createSchemaForClasses(classes, None)
        return int(classes.size())
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def persistent_classes() -> list[str]:
    (archive,) = (Path(pyspark.__file__).parent / "jars").glob("hive-metastore-*.jar")
    with zipfile.ZipFile(archive) as read:
        return re.findall(r'<class name="(\w+)"', read.read("package.jdo").decode("utf-8"))


if __name__ == "__main__":
    print(
        f"the metastore has tables for {create(dict(each.split('=', 1) for each in sys.argv[1:]))} classes", flush=True
    )
