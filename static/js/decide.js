// Asks once more, in place, where a deed cannot be undone; asks for the reason before a denial is sent.
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
})();
