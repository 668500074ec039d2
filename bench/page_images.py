"""Makes the pictures of the twin service's page anew, from a real run: `python -m bench.page_images`.

It starts `ivsim run --page` with 20 vehicles on the default trace, waits until the page has seen half a minute of it, and keeps
docs/images/twin-page-fleet.png and twin-page-vehicle.png; the run is then stopped, and its results go. With `--url URL` it
takes a page that is live, and stops nothing.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from bench.bench_service import CHROMIUM, OPTIONS
from schemas.topics import vehicle_id

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
VEHICLES: Final = 20
CHOSEN: Final = 7
SEEN_S: Final = 30
WAIT_MS: Final = 180_000
ADDRESS: Final = "live page: "
SIZE: Final = {"width": 1440, "height": 900}


def main() -> None:
    """Keep both pictures, and print where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a page that is live")
    parser.add_argument("--out", type=Path, default=IMAGES)
    asked = parser.parse_args()
    if asked.url:
        take(asked.url, asked.out)
        return
    with tempfile.TemporaryDirectory(prefix="ivsim-page-") as scratch, run(Path(scratch) / "run") as url:
        take(url, asked.out)


@contextmanager
def run(output: Path) -> Iterator[str]:
    """Start a run, give its page's address once it has one, and stop it."""
    words = [
        sys.executable,
        "-m",
        "ivsim.cli",
        "run",
        "--page",
        "--page-port",
        "0",
        "--vehicles",
        str(VEHICLES),
    ]
    words += ["--duration", "600", "--loss-timeout", "10", "--output", str(output)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith(ADDRESS):
                    yield line.removeprefix(ADDRESS).strip()
                    break
            else:
                sys.exit("the run ended before it had a page:\n" + "".join(said))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def take(url: str, out: Path) -> None:
    """Keep the fleet's picture, and one of a vehicle, coloured by what links give."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = browser.new_context(viewport=SIZE, color_scheme="light").new_page()  # type: ignore[arg-type]
        page.set_default_timeout(WAIT_MS)
        page.goto(url)
        page.wait_for_function("most => Number(document.getElementById('when').max) >= most", arg=SEEN_S)
        keep(page, out / "twin-page-fleet.png")
        page.locator(f'#space .row[data-id="{vehicle_id(CHOSEN)}"]').click()
        page.locator("#colour").select_option("link")
        # Its signals come from the service, and are drawn half a second later.
        page.locator("#detail canvas").nth(2).wait_for()
        seen = page.evaluate("Number(document.getElementById('when').max)")
        page.wait_for_function("most => Number(document.getElementById('when').max) >= most", arg=seen + 2)
        keep(page, out / "twin-page-vehicle.png")
        browser.close()


def keep(page: Page, path: Path) -> None:
    """Write what the window shows."""
    page.screenshot(path=path)
    print(path)


if __name__ == "__main__":
    main()
