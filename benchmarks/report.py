"""The page of a sweep of 200 cells: its size, and how soon Chromium shows it.

    python benchmarks/report.py [--times 5]

Times count from the start of navigation: to the load event, and until the first chart is drawn.
The cells' figures are made up; the page is made of them as of any others.
"""

import argparse
import itertools
import math
import runpy
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from fedpriv.report.page import write_report

BROWSER = Path(__file__).parents[1] / "tests" / "helpers" / "browsing.py"
WATCH = """
new MutationObserver((_, self) => {
  if (!document.querySelector('.chart svg path')) return;
  window.drawn = performance.now();
  self.disconnect();
}).observe(document, { childList: true, subtree: true });
"""
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def sweep(folder: Path) -> Path:
    """Four defences, five values, two attacks, five seeds."""
    grid = itertools.product(("noise", "pruning", "spn", "dp"), range(1, 6), (0, 1), range(5))
    rows = [
        {
            "defence": defence,
            "value": value / 10,
            "seed": seed,
            "batch-size": 1,
            "attack": f"{defence}-aware" if knows else "dlg",
            "informed": bool(knows),
            "accuracy": 0.9 - value / 50,
            "psnr": 30 - 4 * value + 5 * knows,
            "psnr-best": 32 - 4 * value + 5 * knows,
            "rmse": value / 5,
            "m": math.log10(1 + 10 / value**2 + seed / 10),
            "seconds": 1.0,
        }
        for defence, value, knows, seed in grid
    ]
    pd.DataFrame(rows).to_csv(folder / "results.csv", index=False)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    chromium = runpy.run_path(str(BROWSER))["chromium"]
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        started = time.perf_counter()
        page = write_report([sweep(Path(folder))])
        written = time.perf_counter() - started
        print(f"written in {written:.2f} s, {page.stat().st_size / 1e6:.1f} MB")
        loads, draws = [], []
        for number in range(times):
            with chromium(Path(folder) / f"profile-{number}") as tab:
                tab.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
                tab.size(1280)
                tab.open(page.as_uri())
                tab.until("window.drawn > 0")
                loads.append(tab.run(LOADED) / 1000)
                draws.append(tab.run("window.drawn") / 1000)
    for name, seconds in (("loaded", loads), ("first chart", draws)):
        middle, worst = statistics.median(seconds), max(seconds)
        print(f"{name}: {middle:.2f} s (median of {times}), {worst:.2f} s at worst")


if __name__ == "__main__":
    main()
