// A queue: looks again every few seconds. Counts follow at once; rows never move: what is new waits behind a pill, and
// what no longer waits is struck in place.
"use strict";

(() => {
  const SECONDS = 5;
  const place = document.querySelector("[data-live-list]");
  const said = place.querySelector("[data-live-said]");
  const note = place.querySelector("[data-live-note]");
  const pill = place.querySelector("[data-live-new]");
  let failures = 0;
  let timer = 0;
  let announced = 0;

  const rows = (page) => [...page.querySelectorAll("[data-rows] > li")];

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function follow(page) {
    document.title = page.title;
    for (const link of document.querySelectorAll("nav.tabs a")) {
      const count = page.querySelector(`nav.tabs a[href="${CSS.escape(link.getAttribute("href"))}"] .count`);
      const shown = link.querySelector(".count");
      if (count && shown && (count.textContent !== shown.textContent || count.className !== shown.className)) shown.replaceWith(count);
    }
  }

  // On a full page, what stands after the last row that is still there may only have been pushed to the next page.
  function gone(page, fresh) {
    const mine = rows(document);
    const last = mine.findLastIndex((row) => fresh.has(row.id));
    const known = page.querySelector("[data-live-list]").hasAttribute("data-more") ? mine.slice(0, last + 1) : mine;
    return known.filter((row) => !fresh.has(row.id));
  }

  function strike(row) {
    if (row.classList.contains("gone")) return;
    row.style.height = `${row.getBoundingClientRect().height}px`;
    row.classList.add("gone");
    row.querySelector(".row-task").textContent = "No longer waits.";
  }

  function show(page) {
    follow(page);
    const fresh = new Set(rows(page).map((row) => row.id));
    const mine = new Set(rows(document).map((row) => row.id));
    for (const row of gone(page, fresh)) strike(row);
    const count = [...fresh].filter((id) => !mine.has(id)).length;
    pill.hidden = !count;
    write(pill, `${count} new`);
    if (count > announced) write(said, `${count} new in this list.`);
    announced = count;
  }

  async function look() {
    const response = await fetch(location.pathname + location.search, { redirect: "manual", headers: { "X-Cayu-Live": "list" } });
    if (response.type === "opaqueredirect") return "You are signed out: load the page again to sign in.";
    if (!response.ok) throw new Error(response.statusText);
    show(new DOMParser().parseFromString(await response.text(), "text/html"));
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
    write(note, stopped || (failures ? "Live updates paused, retrying." : ""));
    if (!stopped) wait();
  }

  function wait() {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(again, 1000 * Math.min(60, SECONDS * 2 ** failures));
  }

  // The list is loaded again, and the row that had the focus gets it back (list.js).
  let focused = "";
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("[data-rows] > li");
    if (row) focused = row.id;
  });
  pill.addEventListener("click", () => {
    history.replaceState(null, "", `${location.pathname}${location.search}${focused ? `#${focused}` : ""}`);
    location.reload();
  });

  document.addEventListener("visibilitychange", wait);
  wait();
})();
