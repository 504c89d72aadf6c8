"""Tells receivers of OpenLineage of refreshes: what each view was computed from, when, and how that ended.

`reports` collects what happens, `described_views` asks Spark what is not known of it, `dataset_names` names tables as
openlineage-spark does, `events` writes events, and `sender` sends them from a thread. No refresh waits for any of them.
Only `events` needs the package openlineage-python.
"""
