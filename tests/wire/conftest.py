"""Property tests have no deadline per example, because a busy machine is not a failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("wire", deadline=None)
settings.load_profile("wire")
