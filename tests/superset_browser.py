"""A user of Superset in a browser: reads options as JSON, and prints what the pages showed as JSON.

This program runs in Superset's environment, where Selenium is. `tests/drivers/test_superset.py` starts it.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

SECONDS = 60
SHOTS_MAX = 30
VIEW = "daily"
READ = f"SELECT * FROM {VIEW} ORDER BY day, product"
INSERT = "INSERT INTO orders (day, product, amount) VALUES (DATE'2026-01-01', 'tea', 1000)"
TOTAL = {"expressionType": "SIMPLE", "column": {"column_name": "total"}, "aggregate": "SUM", "label": "total"}
CALL = """
const [method, path, body, done] = arguments;
(async () => {
    const headers = {'Content-Type': 'application/json'};
    if (method !== 'GET') {
        headers['X-CSRFToken'] = (await (await fetch('/api/v1/security/csrf_token/')).json()).result;
    }
    const answer = await fetch('/api/v1' + path, {method, headers, body: body === null ? undefined : body});
    done([answer.status, await answer.json()]);
})().catch(error => done([0, String(error)]));
"""


class User:
    """A browser that shows Superset."""

    def __init__(self, options: dict[str, str]) -> None:
        chosen = webdriver.ChromeOptions()
        chosen.binary_location = options["browser"]
        for each in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
            chosen.add_argument(each)
        chosen.add_argument("--window-size=1280,800")
        self._options = options
        self._driver = webdriver.Chrome(options=chosen, service=webdriver.ChromeService(options["driver"]))
        self._driver.set_script_timeout(SECONDS)

    def quit(self) -> None:
        self._driver.quit()

    def open(self, path: str, **parameters: object) -> None:
        self._driver.get(f"{self._options['url']}{path}?{urlencode(parameters)}")

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """The first true value of a condition. Saves a picture of the page if there is none in time."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                if found := condition():
                    return found
            except StaleElementReferenceException:
                continue
        self.picture("failure")
        raise AssertionError(f"waited {SECONDS} s for {what} at {self._driver.current_url}")

    def all(self, selector: str) -> list[WebElement]:
        return [each for each in self._driver.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]

    def find(self, selector: str, text: str = "") -> WebElement:
        """The first visible element with this text in it."""

        def find() -> WebElement | None:
            return next((each for each in self.all(selector) if text in each.text and each.is_enabled()), None)

        found: WebElement = self.wait(find, f"{selector} {text}")
        return found

    def call(self, method: str, path: str, body: object = None) -> Any:
        """A call of the API with the session of the page."""
        status, answer = self._driver.execute_async_script(CALL, method, path, body and json.dumps(body))
        assert status in {200, 201}, f"{method} {path}: {status} {answer}"
        return answer

    def picture(self, name: str) -> None:
        """Saves a small picture of the page, once nothing in it moves any more."""
        shots = [b"", self._driver.get_screenshot_as_png()]
        while shots[-1] != shots[-2] and len(shots) < SHOTS_MAX:
            shots.append(self._driver.get_screenshot_as_png())
        image = Image.open(io.BytesIO(shots[-1])).convert("RGB")
        small = image.quantize(64, dither=Image.Dither.NONE)
        small.save(Path(self._options["pictures"]) / f"{name}.png", optimize=True)

    # --- the pages --------------------------------------------------------------------------------------

    def log_in(self) -> str:
        self.open("/login/")
        self.find('[data-test="username-input"]').send_keys(self._options["user"])
        self.find('[data-test="password-input"]').send_keys(self._options["password"])
        self.find('[data-test="login-button"]').click()
        self.wait(lambda: "/login" not in self._driver.current_url, "the login")
        return self.place

    @property
    def place(self) -> str:
        return str(self._driver.current_url)

    def run(self, connection: int, sql: str) -> str:
        """Runs a statement in SQL Lab; returns the text below it."""
        schema = self._options["schema"]
        self.open("/sqllab/", dbid=connection, schema=schema, sql=sql, title="Orders")
        self.find(".ace_content", sql[:20])
        self.find('[data-test="run-query-action"]').click()
        ended = ("rows", "returned no data", "Error", "error")
        south = '[data-test="south-pane"]'
        self.wait(lambda: any(word in self.find(south).text for word in ended), "the result")
        return str(self.find(south).text)

    def tree(self) -> list[str]:
        """The names beside SQL Lab's editor, once the schema is open."""
        schema = self._options["schema"]
        self.find('[role="treeitem"] .tree-node-title', schema).click()
        self.find('[role="treeitem"][aria-level="2"]')
        self.find('[role="treeitem"][aria-level="2"]', VIEW)
        return [each.text for each in self.all('[role="treeitem"]')]

    def choose(self, label: str, name: str) -> list[str]:
        """Chooses a name from a list; returns the names in it."""
        self.find(f'.ant-select:not(.ant-select-disabled)[aria-label*="{label}"]').click()
        options = ".ant-select-dropdown:not(.ant-select-dropdown-hidden) .ant-select-item-option"
        chosen = self.find(options, name)
        names = [each.text for each in self.all(options)]
        chosen.click()
        return names

    def new_dataset(self, database: str) -> list[list[str]]:
        """Creates a dataset on the view; returns the names in the three lists."""
        self.open("/dataset/add/")
        lists = [self.choose("database", database), self.choose("schema", self._options["schema"])]
        lists.append(self.choose("table", VIEW))
        self.find("body", "DECIMAL")
        self.picture("superset-dataset")
        self.find("button", "Create and explore dataset").click()
        self.wait(lambda: "/dataset/add" not in self._driver.current_url, "the dataset")
        return lists

    def new_chart(self, dataset: int, kind: str, name: str, **settings: object) -> int:
        settings |= {"viz_type": kind, "datasource": f"{dataset}__table"}
        body = {"slice_name": name, "viz_type": kind, "datasource_id": dataset, "datasource_type": "table"}
        return int(self.call("POST", "/chart/", {**body, "params": json.dumps(settings)})["id"])

    def number(self, chart: int) -> str:
        """What a chart of one number shows."""
        self.open("/explore/", slice_id=chart)
        return str(self.wait(lambda: "".join(each.text for each in self.all(".header-line")), "the number"))


def visit(user: User, options: dict[str, str]) -> dict[str, Any]:
    seen: dict[str, Any] = {"welcome": user.log_in()}
    made = {"database_name": "Tea shop", "sqlalchemy_uri": options["database"], "allow_dml": True}
    connection = int(user.call("POST", "/database/", {**made, "expose_in_sqllab": True})["id"])
    seen["result"] = user.run(connection, READ)
    seen["tree"] = user.tree()
    user.picture("superset-sql-lab")
    seen["lists"] = user.new_dataset("Tea shop")
    found = user.call("GET", f"/dataset/?q=(filters:!((col:table_name,opr:eq,value:{VIEW})))")["result"]
    (dataset,) = (int(each["id"]) for each in found)
    total = user.new_chart(dataset, "big_number_total", "Total", metric=TOTAL, y_axis_format=",.2f")
    weeks = {"x_axis": "day", "time_grain_sqla": "P1W", "metrics": [TOTAL], "groupby": ["product"], "stack": "Stack"}
    bars = user.new_chart(dataset, "echarts_timeseries_bar", "Sales of each week", **weeks, show_legend=True)
    seen["before"] = user.number(total)
    seen["inserted"] = user.run(connection, INSERT)
    seen["after"] = user.number(total)
    user.open("/explore/", slice_id=bars)
    user.find("canvas")
    user.picture("superset-chart")
    return seen


def main() -> None:
    options = json.load(sys.stdin)
    user = User(options)
    try:
        print(json.dumps(visit(user, options)))
    finally:
        user.quit()


if __name__ == "__main__":
    main()
