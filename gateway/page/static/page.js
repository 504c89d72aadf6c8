// Keeps the page up to date while it is visible. Without this script, loading it again does the same.
"use strict";
(() => {
  const SECONDS = 2;
  let tag = "", asking = false, shown = new Date(), told = "";

  function tell(text) {
    // Screen readers say what changes.
    if (text === "") shown = new Date();
    if (text === "" ? told !== "" : told === "") document.getElementById("news").textContent = text;
    told = text;
  }

  function busy(main) {
    // What the visitor types, chooses or has opened stays.
    const active = document.activeElement;
    return (active && main.contains(active) && active.matches("input, select")) || main.querySelector("details[open]");
  }

  function names(main) {
    return new Set([...main.querySelectorAll("a[href^='/tasks/']")].map((each) => each.textContent));
  }

  async function ask() {
    const main = document.getElementById("main");
    if (asking || document.hidden || busy(main) || document.querySelector(".login")) return;
    asking = true;
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(location.href, { headers, credentials: "same-origin", redirect: "manual" });
      if (answer.type === "opaqueredirect") {
        // The visit is over: this leads to the login, and back here.
        location.reload();
        return;
      }
      tell("");
      if (answer.status !== 200) return;
      tag = answer.headers.get("ETag") || "";
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (!next || busy(main) || next.innerHTML === main.innerHTML) return;
      const before = names(main), focused = document.activeElement, place = focused && focused.getAttribute("href");
      main.replaceChildren(...next.childNodes);
      if (place) {
        const again = [...main.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === place);
        if (again && document.activeElement === document.body) again.focus({ preventScroll: true });
      }
      const after = names(main);
      const ended = [...before].filter((each) => !after.has(each));
      if (ended.length && location.pathname !== "/views") {
        document.getElementById("news").textContent = `Ended: task ${ended.join(", ")}`;
      }
    } catch {
      // The gateway may be restarting: the next turn asks again.
      tell(`The gateway does not answer. This is what it showed at ${shown.toLocaleTimeString()}.`);
    } finally {
      asking = false;
    }
  }

  setInterval(ask, SECONDS * 1000);
  document.addEventListener("visibilitychange", ask);
})();
