"""What people try on a page: markup in names, other sites' requests, other people's jobs, old links."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cohabit.live.api.settings import ApiSettings, UserLimits
from tests.live.api.serving import Server, served
from tests.live.page.browsing import Tab
from tests.live.page.conftest import link_of

pytestmark = pytest.mark.system
NewTab = Callable[..., Tab]
MARKUP = "<img src=x onerror=\"document.title='broken in'\"><script>document.title='broken in'</script>"


@pytest.fixture(scope="module")
def open_server() -> Iterator[Server]:
    """One that also listens on TCP, for people with tokens."""
    with served(ApiSettings(host="127.0.0.1", users={"olga": UserLimits(role="operator")})) as one:
        yield one


def token(server: Server, user: str) -> str:
    """A token of a user."""
    return str(server.ask("POST", "/v1/tokens", {"user": user}).body["token"])


def sign_in(one: Tab, server: Server, text: str) -> None:
    """Give a token to the page."""
    one.page.goto(f"http://127.0.0.1:{server.port}/")
    one.page.get_by_label("Token").fill(text)
    one.page.get_by_role("button", name="Sign in").click()


def test_markup_in_names_reasons_and_output_stays_text(open_server: Server, tab: NewTab) -> None:
    server = open_server
    server.submit(f"printf '%s' '{MARKUP.replace(chr(39), '')}'", name="shown", program=MARKUP)
    server.over("shown")
    server.submit("exit 0", name="first", hold=True)
    server.submit("exit 0", name="waits", program=MARKUP, after=["first"], folder="/tmp")
    one = tab()
    sign_in(one, server, token(server, "root"))
    one.page.wait_for_selector(".view-overview canvas")
    one.see(MARKUP)
    for path in ("jobs", "jobs/shown", "jobs/waits", "gantt", "nodes/0", "programs", "predictions"):
        one.view(path)
        assert one.page.locator("main img, main script").count() == 0, path
    one.view("jobs/shown")
    one.page.get_by_role("button", name="Read it").click()
    one.page.locator(".output", has_text="onerror").wait_for()
    assert "broken in" not in one.page.title()


def test_the_browser_itself_refuses_scripts_of_others(server: Server, tab: NewTab) -> None:
    """Even if markup got in, the policy of the page would stop it."""
    one = tab().open(link_of(server))
    tried = one.page.evaluate(
        """() => {
          const outcome = [];
          try { document.body.innerHTML += '<b>x</b>'; outcome.push('markup'); } catch { outcome.push('no markup'); }
          try {
            const script = document.createElement('script');
            script.textContent = "document.title = 'broken in'";
            document.body.append(script);
            outcome.push('script');
          } catch { outcome.push('no script'); }
          return outcome;
        }"""
    )
    assert tried == ["no markup", "no script"]
    assert one.wrong  # the browser said so on its console
    one.wrong.clear()


@contextmanager
def other_site(body: str) -> Iterator[str]:
    """A page of somebody else, on another port."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{site.server_port}/"
    finally:
        site.shutdown()
        site.server_close()


def test_another_site_cannot_act_for_you(open_server: Server, tab: NewTab) -> None:
    """The victim is signed in, in the same browser, and opens the attacker's page."""
    server = open_server
    one = tab()
    sign_in(one, server, token(server, "root"))
    one.page.wait_for_selector(".view-overview canvas")
    target = f"http://127.0.0.1:{server.port}/v1/jobs"
    before = server.ask("GET", "/v1/jobs?state=all").body["jobs"]
    with other_site("<!doctype html><title>harmless</title>") as address:
        bad = one.context.new_page()
        bad.goto(address)
        bad.evaluate(
            """async (target) => {
              const body = JSON.stringify({command: ['true'], name: 'stolen'});
              for (const headers of [{}, {'content-type': 'text/plain'}, {'content-type': 'application/json'}])
                for (const mode of ['no-cors', 'cors'])
                  await fetch(target, {method: 'POST', mode, credentials: 'include', headers, body}).catch(() => {});
            }""",
            target,
        )
        answers: list[int] = []
        bad.on("response", lambda answer: answers.append(answer.status) if answer.url == target else None)
        bad.evaluate(
            """(target) => {
              const form = Object.assign(document.createElement('form'), {method: 'post', action: target,
                enctype: 'text/plain'});
              form.append(Object.assign(document.createElement('input'), {name: '{"command":["true"],"x":"',
                value: '"}'}));
              document.body.append(form);
              form.submit();
            }""",
            target,
        )
        bad.wait_for_url(target)
        assert answers == [403]
        assert "another site" in bad.inner_text("body")
    after = server.ask("GET", "/v1/jobs?state=all").body["jobs"]
    assert [job["job"] for job in after] == [job["job"] for job in before]


def test_a_page_in_a_frame_is_refused(server: Server, tab: NewTab) -> None:
    address = link_of(server).split("#")[0]
    one = tab()
    with other_site(f'<iframe src="{address}"></iframe>') as outer:
        one.page.goto(outer)
        one.page.wait_for_load_state("networkidle")
        framed = one.page.frames[-1]
        assert "Cohabit" not in framed.content()
    one.wrong.clear()  # the browser says that it refused


def test_users_see_their_own_and_operators_all(open_server: Server, tab: NewTab) -> None:
    server = open_server
    server.submit("sleep 300", name="secret-of-root", program="secret-program")
    visitor = tab()
    sign_in(visitor, server, token(server, "guest-without-account"))
    visitor.page.wait_for_selector(".view-overview canvas")
    visitor.see("No job waits or runs.")
    visitor.view("nodes/0", "table")
    visitor.see("a job of another user")
    assert visitor.page.get_by_role("button", name="Drain").count() == 0
    visitor.view("gantt")
    assert "secret" not in visitor.page.content()
    visitor.page.evaluate("location.hash = '#/jobs/secret-of-root'")
    visitor.see("there is no such job")
    visitor.wrong = [text for text in visitor.wrong if "404" not in text]
    operator = tab()
    sign_in(operator, server, token(server, "olga"))
    operator.see("secret-of-root")
    operator.view("jobs/secret-of-root")
    operator.page.get_by_role("button", name="Cancel").click()
    operator.page.locator(".badge", has_text="cancelled").wait_for()


def test_a_link_opens_once_and_a_wrong_token_never(open_server: Server, tab: NewTab) -> None:
    link = link_of(open_server)
    first = tab().open(link)
    assert "key" not in first.page.url
    first.page.reload()
    first.page.wait_for_selector(".view-overview canvas")
    second = tab()
    second.page.goto(link)
    second.see("this link was used before, or is too old")
    second.page.get_by_label("Token").fill("0123.wrong")
    second.page.get_by_role("button", name="Sign in").click()
    second.see("the token is wrong, expired or revoked")
    second.wrong = [text for text in second.wrong if "401" not in text]
    first.page.get_by_role("button", name="Sign out").click()
    first.page.get_by_label("Token").wait_for()
    pages = [one for one in open_server.ask("GET", "/v1/tokens").body["tokens"] if one["page"]]
    kept = [one for one in pages if not one["parents"]]  # others have signed in with tokens, and are still there
    assert kept
    assert not any(one["valid"] for one in kept)


def test_a_second_tab_needs_no_second_link(server: Server, tab: NewTab) -> None:
    one = tab().open(link_of(server))
    other = one.context.new_page()
    other.goto(one.page.url.split("#")[0])
    other.wait_for_selector(".view-overview canvas")
