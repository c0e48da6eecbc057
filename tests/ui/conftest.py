"""A browser for the tests: Debian's Chromium through Playwright, or a notice why there is none."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

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
