// Lists: the next and the previous row, and the way back to the same row and scroll.
"use strict";

(() => {
  const links = [...document.querySelectorAll("[data-rows] > li > div > a")];
  const memory = (path) => `cayu.list ${path}`;

  let current = -1; // the row that had the focus last, also while a button has it

  function move(step) {
    const next = current < 0 && step < 0 ? links.length - 1 : current + step;
    links[next]?.focus();
  }

  links.forEach((link, index) => link.addEventListener("focus", () => (current = index)));

  function comeBack() {
    const row = location.hash && document.getElementById(location.hash.slice(1));
    if (!row) return;
    const place = JSON.parse(sessionStorage.getItem(memory(location.pathname)) ?? "null");
    row.querySelector("a").focus({ preventScroll: true });
    if (place?.search === location.search) scrollTo(0, place.scroll);
    else row.scrollIntoView({ block: "center" });
  }

  for (const [key, step] of [["j", 1], ["k", -1]]) {
    document.querySelector(`[data-key="${key}"]`)?.addEventListener("click", () => move(step));
  }

  if (links.length) {
    window.addEventListener("pagehide", () => {
      const place = JSON.stringify({ search: location.search, scroll: scrollY });
      sessionStorage.setItem(memory(location.pathname), place);
    });
    window.addEventListener("load", () => setTimeout(comeBack));
  }

  // The link back leads to the page of the list that we came from.
  const back = document.querySelector("[data-back]");
  if (back) {
    const place = JSON.parse(sessionStorage.getItem(memory(back.pathname)) ?? "null");
    if (place) back.search = place.search;
  }
})();
