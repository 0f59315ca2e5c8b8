// A session that is not at rest: looks again, and swaps the page's main part when something has moved.
"use strict";

(() => {
  let live = document.querySelector("[data-live]");
  const said = document.querySelector("[data-live-said]");
  let failures = 0;

  function note(text) {
    const place = live.querySelector("[data-live-note]");
    if (place && place.textContent !== text) place.textContent = text;
  }

  function reading() {
    const selection = getSelection();
    return !selection.isCollapsed && live.contains(selection.anchorNode);
  }

  function swap(fresh) {
    const open = [...live.querySelectorAll("details[open]")].map((details) => details.id);
    const focused = live.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    if (fresh.dataset.words !== live.dataset.words) said.textContent = `Session: ${fresh.dataset.words}`;
    live.replaceWith(fresh);
    live = fresh;
    for (const details of live.querySelectorAll("details")) details.open ||= open.includes(details.id);
    if (focused !== null) live.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  async function look() {
    const response = await fetch(location.href, { redirect: "manual" });
    if (response.type === "opaqueredirect") return "You are signed out: refresh to sign in again.";
    if (!response.ok) throw new Error(response.statusText);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.querySelector("[data-live]");
    if (fresh.dataset.live !== live.dataset.live && !reading()) swap(fresh);
    return "";
  }

  async function again() {
    let stopped = "";
    if (!document.hidden) {
      try {
        stopped = await look();
        failures = 0;
      } catch {
        failures += 1;
      }
    }
    note(stopped || (failures ? "Live updates paused, retrying." : "This page refreshes itself."));
    if (!stopped) wait();
  }

  function wait() {
    const seconds = Number(live.dataset.refresh ?? 0);
    if (seconds) setTimeout(again, 1000 * Math.min(30, seconds * 2 ** failures));
  }

  if (live.dataset.refresh) note("This page refreshes itself.");
  wait();
})();
