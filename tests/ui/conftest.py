"""A browser for the tests: Debian's Chromium through Playwright, or a notice why there is none."""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from PIL import Image

Shoot = Callable[[str], None]  # keeps a picture of what is on the screen under a name

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS: Final = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Any]:
    """Return a page of a browser with an empty profile."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: `make test-ui` installs it")
    executable = next(filter(None, map(shutil.which, _NAMES)), None)
    if executable is None:
        pytest.skip("there is no Chromium here, so nobody looked at the UI (Debian: apt install chromium)")
    with playwright.sync_playwright() as engine:
        context = engine.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=executable,
            headless=True,
            viewport={"width": 1500, "height": 900},
            args=_ARGUMENTS.split(),
        )
        opened = context.new_page()
        opened.set_default_timeout(60_000)
        yield opened
        context.close()


@pytest.fixture
def shoot(page: Any, tmp_path: Path) -> Shoot:
    """Return how pictures are kept: where UI_PICTURES names a folder (``make test-ui PICTURES=``), else with the test's files."""
    folder = Path(os.environ.get("UI_PICTURES") or tmp_path / "pictures")
    folder.mkdir(parents=True, exist_ok=True)

    def keep(name: str) -> None:
        seen = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        seen.quantize(256, dither=Image.Dither.NONE).save(folder / f"ui_{name}.png", optimize=True)

    return keep
