"""A real Chromium for tests, and what every test wants to know of a page: that it said nothing on its console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PATIENCE_MS = 60_000
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TABLET = {"width": 768, "height": 1024}
CUT = """() => [...document.querySelectorAll('body *')].filter((one) => {
  const box = one.getBoundingClientRect();
  if (one.closest('.jobs-table') && one.matches('.scroll') && one.scrollWidth > one.clientWidth + 1) return true;
  return box.width && !one.closest('.hidden, .skip') && (!one.closest('.scroll') || one.matches('.scroll'))
    && (box.right > document.documentElement.clientWidth + 1 || box.left < -1);
}).map((one) => `${one.tagName} ${one.className}: ${one.textContent.slice(0, 30)}`)"""
SERIOUS = ("serious", "critical")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, or a skip that says what is missing."""
    if BROWSER is None:
        pytest.skip("no chromium found: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make setup")
    with playwright.sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield one
        finally:
            one.close()


class Tab:
    """A page that remembers everything that went wrong on it."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(**({"viewport": WIDE} | options))
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.wrong: list[str] = []
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self._dialog(dialog))

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, link: str) -> Tab:
        """Go in by a link, and wait until something is shown."""
        self.page.goto(link)
        self.page.wait_for_selector(".view-overview canvas")
        return self

    def view(self, path: str, wanted: str = "h1") -> None:
        """Another view, by its address; what was shown before does not count."""
        self.page.evaluate(
            """(to) => {
              if (location.hash === to || (location.hash === '' && to === '#/')) return;
              document.querySelector('main > *')?.setAttribute('data-old', '');
              location.hash = to;
            }""",
            f"#/{path}",
        )
        name = path.split("/")[0] or "overview"
        self.page.wait_for_selector(f"main > .view-{name}:not([data-old]) {wanted}")

    def see(self, text: str, within: str = "main") -> None:
        """Wait until a text is there."""
        self.page.locator(within).get_by_text(text).first.wait_for()

    def until(self, condition: str) -> None:
        """Wait until this is true in the page. Playwright's own wait_for_function evaluates texts in the page again and
        again, which the page's policy forbids."""
        self.page.evaluate(
            f"""async () => {{
              const end = performance.now() + {PATIENCE_MS};
              while (!({condition})) {{
                if (performance.now() > end) throw new Error('it did not come to this');
                await new Promise((done) => setTimeout(done, 15));
              }}
            }}"""
        )

    def cut(self) -> list[str]:
        """What stands out of the window at a side, but for tables that can be scrolled; the list of jobs must fit."""
        return list(self.page.evaluate(CUT))

    def complaints(self) -> list[str]:
        """What axe finds that keeps people out."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
        return [
            f"{one['id']} ({one['impact']}): {node['html'][:120]}"
            for one in found
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]

    def close(self) -> None:
        """Done with it."""
        self.context.close()
