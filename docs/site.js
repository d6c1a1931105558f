if (location.protocol === "file:") document.documentElement.classList.add("from-disk");

// Names for who hears the page: the theme gives these parts none.
addEventListener("DOMContentLoaded", () => {
  for (const [part, name] of [["#__drawer", "Menu"], ["#__search", "Search"], [".md-search", "Search"]])
    document.querySelector(part)?.setAttribute("aria-label", name);
});
