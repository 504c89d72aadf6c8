"""Superset's configuration in the image of Containerfile. `prepare` makes what it names."""

import os
from pathlib import Path

_HOME = Path(os.environ["SUPERSET_HOME"])

SECRET_KEY = (_HOME / "secret_key").read_text(encoding="utf-8").strip()
SQLALCHEMY_DATABASE_URI = f"sqlite:///{_HOME}/superset.db"
