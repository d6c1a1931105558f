if (location.protocol === "file:") document.documentElement.classList.add("from-disk");
