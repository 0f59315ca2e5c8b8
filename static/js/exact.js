// Approve stays off until the arguments have been shown to their end.
"use strict";

(() => {
  const box = document.querySelector("[data-exact]");
  const buttons = [...document.querySelectorAll("[data-approve]:enabled")];
  if (box.dataset.exact !== "open" && box.offsetHeight > innerHeight * 1.2) {
    box.classList.add("long");
    box.tabIndex = 0;
    box.role = "group";
    box.ariaLabel = "Arguments, to be scrolled";
  }
  if (!buttons.length) return;

  const unread = document.querySelector("[data-unread]");
  const bar = document.querySelector("[data-bar]");

  function setRead(read) {
    for (const button of buttons) button.disabled = !read;
    unread.hidden = read;
  }

  setRead(false);
  const covered = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      setRead(true);
    },
    { rootMargin: `0px 0px -${covered}px 0px` },
  );
  observer.observe(document.querySelector("[data-exact-end]"));
})();
