"""`@publisher/name`: an app of Flower's hub, fetched by Flower's own command."""

import re
import subprocess
import sys
from pathlib import Path

from fedpriv.errors import BadInput

HUB = re.compile(r"@(?P<publisher>[\w.-]+)/(?P<name>[\w.-]+)(==(?P<version>[\w.]+))?")
LONGEST = 120  # seconds


def hub_name(app: str) -> str | None:
    """The name of an app of the hub, `@publisher/name` or `@publisher/name==1.2.3`; else None."""
    if not app.startswith("@"):
        return None
    found = HUB.fullmatch(app)
    if found is None:
        raise BadInput(f"'{app}' is no app of Flower's hub; write @publisher/name.")
    return found["name"]


def fetched(app: str, folder: Path) -> Path:
    """Where `flwr new` put the app's own files, inside `folder`.

    What is there is not fetched again. BadInput with the way out where Flower cannot fetch it.
    """
    name = hub_name(app)
    assert name is not None
    place = folder / name
    if (place / "pyproject.toml").exists():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    flwr = Path(sys.executable).with_name("flwr")
    try:
        done = subprocess.run(
            [str(flwr), "new", app],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        said = done.stderr.strip() or done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if (place / "pyproject.toml").exists():
        return place
    why = " ".join(re.sub(r"[^ -~]", " ", said).split())[-200:]
    raise BadInput(
        f"'{app}' could not be fetched from Flower's hub by `flwr new {app}` ({why}). Fetch it "
        "where the hub can be reached, or clone its repository, and give the folder: fedpriv "
        "audit --app FOLDER."
    )
