"""Takes the pictures of docs/how-to/page.md: `PYTHONPATH=.:tests .venv/bin/python scripts/page_pictures.py` (needs
scripts/setup --with-browser)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from served_page import ServedPage, visit

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
PICTURES = {
    "attention": "/",
    "view": "/views/shop/daily",
    "lineage": "/lineage/shop/daily",
    "activity": "/activity",
    "savings": "/savings",
}
SIZE = {"width": 1100, "height": 700}


def main() -> int:
    served = ServedPage()
    try:
        with sync_playwright() as started:
            browser: Any = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            tab = visit(browser, served, viewport=SIZE)
            for name, place in PICTURES.items():
                tab.goto(place)
                tab.screenshot(path=FOLDER / f"page-{name}.png")
            browser.close()
    finally:
        served.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
