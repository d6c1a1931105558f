"use strict";
// On paper every table is open; afterwards those are shut again that were.
const closed = () => document.querySelectorAll("details:not([open])");
window.addEventListener("beforeprint", () => closed().forEach((part) => { part.open = true; part.dataset.shut = ""; }));
window.addEventListener("afterprint", () => document.querySelectorAll("details[data-shut]").forEach((part) => { part.open = false; delete part.dataset.shut; }));
