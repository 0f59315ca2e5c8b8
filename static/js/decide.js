// Asks once more, in place, where a deed cannot be undone; asks for the reason before a denial is sent; keeps what
// was asked for apart from what a person changes.
"use strict";

(() => {
  const ask = document.querySelector("[data-ask]");
  const confirm = document.querySelector("[data-confirm]");
  const opener = document.querySelector("[data-asks]");
  const cancel = document.querySelector("[data-cancel]");
  const reason = document.getElementById("reason");
  const deny = document.querySelector('[data-key="d"]');

  function turn(asking) {
    if (asking) cancel.style.minHeight = `${ask.offsetHeight}px`;
    confirm.hidden = !asking;
    ask.hidden = asking;
    (asking ? cancel : opener).focus();
  }

  if (confirm) {
    opener.addEventListener("click", (event) => {
      event.preventDefault();
      turn(true);
    });
    cancel.addEventListener("click", (event) => {
      event.preventDefault();
      turn(false);
    });
  }

  deny?.addEventListener("click", (event) => {
    if (!reason || reason.value.trim()) return;
    event.preventDefault();
    reason.setCustomValidity("Say why: a denial needs a reason, which the agent is told.");
    reason.reportValidity();
    reason.focus();
  });
  reason?.addEventListener("input", () => reason.setCustomValidity(""));

  // One of the two can be pressed: approve as asked, or approve with the changes.
  const text = document.querySelector("[data-arguments]");
  if (!text) return;
  const putBack = document.querySelector("[data-put-back]");

  function compare() {
    const changed = "changed" in text.dataset || text.value !== text.defaultValue;
    for (const element of document.querySelectorAll("[data-change], [data-put-back], [data-if-changed]")) element.hidden = !changed;
    for (const element of document.querySelectorAll("[data-as-asked]")) element.hidden = changed;
    if (changed && confirm && !confirm.hidden) turn(false);
  }

  text.addEventListener("input", compare);
  putBack.addEventListener("click", (event) => {
    if ("changed" in text.dataset) return; // what was asked for is on the page that the link leads to
    event.preventDefault();
    text.value = text.defaultValue;
    compare();
    text.focus();
  });
  addEventListener("pageshow", compare);
  compare();
})();
