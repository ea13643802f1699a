"""Take the pictures of the built site that are kept: ``python tests/site/screenshots.py`` after ``make docs``.

The first page, a guide and the Explorer, on a desktop and on a phone, light and dark, into docs/images.
"""

import sys
from pathlib import Path

from chromium import CHROMIUM, NO_CHROMIUM, Browser

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "site-first-page": "index.html",
    "site-guide": "guides/annotators.html",
    "explorer": "explorer/index.html",
}
WINDOWS = {"desktop": (1280, 900), "phone": (390, 844)}


def main() -> int:
    """Write them all."""
    if CHROMIUM is None:
        print(NO_CHROMIUM, file=sys.stderr)
        return 1
    with Browser() as browser:
        for name, page in PAGES.items():
            for window, (width, height) in WINDOWS.items():
                for dark in (False, True):
                    browser.open((DOCS / "_build" / "html" / page).as_uri(), width=width, height=height, dark=dark)
                    browser.run("document.fonts.ready.then(() => new Promise((go) => setTimeout(go, 300)))")
                    path = DOCS / "images" / f"{name}-{window}{'-dark' if dark else ''}.png"
                    browser.picture(path)
                    print(path.relative_to(DOCS.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
