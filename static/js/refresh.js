// A session that is not at rest: looks again, and swaps those parts of the page in which something has moved.
"use strict";

(() => {
  const live = document.getElementById("live");
  const said = document.querySelector("[data-live-said]");
  let failures = 0;
  let timer = 0;

  function note(text) {
    const place = live.querySelector("[data-live-note]");
    if (place && place.textContent !== text) place.textContent = text;
  }

  function reading() {
    const selection = getSelection();
    return !selection.isCollapsed && live.contains(selection.anchorNode);
  }

  function writing(part) {
    const fields = [...part.querySelectorAll("input, textarea, select")];
    return fields.some((field) => field === document.activeElement || field.value !== field.defaultValue && field.type !== "hidden");
  }

  function swapPart(part, fresh) {
    if (!fresh || "keep" in part.dataset && (part.dataset.keep === fresh.dataset.keep || writing(part))) return;
    const open = [...part.querySelectorAll("details[open]")].map((details) => details.id);
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const [href, id] = [focused?.getAttribute("href"), focused?.closest("[id]")?.id];
    part.replaceWith(fresh);
    for (const details of fresh.querySelectorAll("details")) details.open ||= open.includes(details.id);
    if (!focused) return;
    const same = href ? fresh.querySelector(`a[href="${CSS.escape(href)}"]`) : document.getElementById(id)?.querySelector("summary");
    (same ?? document.getElementById("main")).focus({ preventScroll: true });
  }

  function swap(page) {
    const fresh = page.getElementById("live");
    if (fresh.dataset.words !== live.dataset.words) said.textContent = `Session: ${fresh.dataset.words}`;
    document.title = page.title;
    for (const part of live.querySelectorAll("[data-part]")) swapPart(part, page.getElementById(part.id));
    for (const name of ["live", "words", "refresh"]) {
      if (name in fresh.dataset) live.dataset[name] = fresh.dataset[name];
      else delete live.dataset[name];
    }
  }

  async function look() {
    const response = await fetch(location.href, { redirect: "manual", headers: { "X-Cayu-Live": live.dataset.live } });
    if (response.type === "opaqueredirect") return "You are signed out: refresh to sign in again.";
    if (!response.ok) throw new Error(response.statusText);
    if (response.status === 204) return "";
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (!reading()) swap(page);
    return "";
  }

  async function again() {
    let stopped = "";
    try {
      stopped = await look();
      failures = 0;
    } catch {
      failures += 1;
    }
    note(stopped || (failures ? "Live updates paused, retrying." : "This page refreshes itself."));
    if (!stopped) wait();
  }

  function wait() {
    clearTimeout(timer);
    const seconds = Number(live.dataset.refresh ?? 0);
    if (seconds && !document.hidden) timer = setTimeout(again, 1000 * Math.min(30, seconds * 2 ** failures));
  }

  document.addEventListener("visibilitychange", wait);
  if (live.dataset.refresh) note("This page refreshes itself.");
  wait();
})();
