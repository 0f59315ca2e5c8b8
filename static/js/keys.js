// Keys: each one presses a control that can be seen. Single letters can be switched off (WCAG 2.1.4).
"use strict";

(() => {
  const help = document.querySelector("[data-keys-help]");
  const lever = document.querySelector("[data-keys-switch]");
  const OFF = "cayu.keys.off";

  const seen = (element) => element && !element.disabled && element.checkVisibility();
  const typing = (element) => element.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");

  function show() {
    const on = localStorage.getItem(OFF) === null;
    lever.checked = on;
    for (const element of document.querySelectorAll("[data-keys-only]")) element.hidden = false;
    for (const key of document.querySelectorAll("[data-key] kbd")) key.hidden = !on;
  }

  function escape(target) {
    if (typing(target)) return target.blur();
    const cancel = document.querySelector("[data-cancel]");
    (seen(cancel) ? cancel : document.querySelector("[data-back]"))?.click();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
    if (event.key === "Escape") return escape(event.target);
    if (typing(event.target) || localStorage.getItem(OFF) !== null) return;
    const control = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === event.key && seen(one));
    if (!control || event.repeat && !"jk".includes(event.key)) return;
    event.preventDefault();
    control.click();
  });

  lever.addEventListener("change", () => {
    if (lever.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "yes");
    show();
  });
  document.querySelector('[data-key="?"]').addEventListener("click", () => help.showModal());
  show();
})();
