// Keeps "4 min ago" and "2 h left" going, by the server's clock and in its words (cayu_review/moments.py).
"use strict";

(() => {
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const skew = Date.parse(document.body.dataset.now) - Date.now();

  function span(seconds) {
    const left = Math.max(0, Math.floor(seconds));
    const index = UNITS.findIndex(([size]) => left >= size);
    if (index < 0) return "0 s";
    const [size, name] = UNITS[index];
    const whole = Math.floor(left / size);
    if (index < 2) {
      const [below, belowName] = UNITS[index + 1];
      const rest = Math.floor((left % size) / below);
      if (rest) return `${whole} ${name} ${rest} ${belowName}`;
    }
    return `${whole} ${name}`;
  }

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function tick() {
    const now = Date.now() + skew;
    for (const element of document.querySelectorAll("time[data-ago]")) {
      const past = (now - Date.parse(element.dateTime)) / 1000;
      write(element, past < 1 ? "just now" : `${span(past)} ago`);
    }
    for (const element of document.querySelectorAll("time[data-until]")) {
      const left = (Date.parse(element.dateTime) - now) / 1000;
      write(element, left < 1 ? "a moment" : span(left));
    }
    for (const element of document.querySelectorAll("time[data-left]")) {
      const left = (Date.parse(element.dateTime) - now) / 1000;
      const near = now >= Date.parse(element.dataset.near);
      write(element, left <= 0 ? "time is over" : `${span(left)} left`);
      element.classList.toggle("over", left <= 0);
      element.classList.toggle("near", left > 0 && near);
      if (left <= 0) element.closest(".row")?.classList.add("over");
    }
  }

  setInterval(tick, 5000);
})();
