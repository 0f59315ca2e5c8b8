// A queue: looks again every few seconds. Counts follow at once; rows never move: what is new waits behind a pill, and
// what no longer waits is struck in place.
"use strict";

(() => {
  const SECONDS = 5;
  const place = document.querySelector("[data-live-list]");
  const said = place.querySelector("[data-live-said]");
  const pill = place.querySelector("[data-live-new]");
  let failures = 0;
  let timer = 0;
  let announced = 0;

  const rows = (page) => [...page.querySelectorAll("[data-rows] > li")];
  const say = (text) => said.textContent !== text && (said.textContent = text);

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
    row.classList.add("gone");
    const mark = document.createElement("span");
    mark.className = "tag";
    mark.textContent = "no longer waits";
    row.querySelector(".row-what").append(mark);
  }

  function show(page) {
    follow(page);
    const fresh = new Set(rows(page).map((row) => row.id));
    const mine = new Set(rows(document).map((row) => row.id));
    for (const row of gone(page, fresh)) strike(row);
    const count = [...fresh].filter((id) => !mine.has(id)).length;
    pill.hidden = !count;
    if (pill.textContent !== `${count} new`) pill.textContent = `${count} new`;
    say(count > announced ? `${count} new in this list.` : count ? said.textContent : "");
    announced = count;
  }

  async function look() {
    const response = await fetch(location.pathname + location.search, { redirect: "manual", headers: { "X-Cayu-Live": "list" } });
    if (response.type === "opaqueredirect") return say("You are signed out: load the page again to sign in.");
    if (!response.ok) throw new Error(response.statusText);
    show(new DOMParser().parseFromString(await response.text(), "text/html"));
    return true;
  }

  async function again() {
    let goesOn = true;
    try {
      goesOn = await look();
      if (failures && said.textContent.startsWith("Live updates")) say("");
      failures = 0;
    } catch {
      failures += 1;
      say("Live updates paused, retrying.");
    }
    if (goesOn) wait();
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
