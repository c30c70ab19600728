// Where everything on the page comes from: one interface over a living scheduler and over finished runs.
// Both answer the same questions under /v1/page; only a living one has events and takes changes.

const KEPT = "cohabit-token";

export class Refused extends Error {
  constructor(status, told) {
    super(told.error || `the server answered ${status}`);
    this.status = status;
    this.where = told.where || "";
    this.fix = told.fix || "";
  }
}

/** The token of this tab; other tabs of the same page are asked for theirs. It is never in a cookie. */
export class Session {
  constructor() {
    this.token = sessionStorage.getItem(KEPT) || "";
    this.channel = new BroadcastChannel("cohabit-session");
    this.channel.onmessage = ({ data }) => {
      if (data.kind === "ask" && this.token) this.channel.postMessage({ kind: "have", token: this.token });
      if (data.kind === "have" && !this.token) this.keep(data.token);
      if (data.kind === "left") { this.forget(); location.reload(); }
    };
  }

  keep(token) {
    this.token = token;
    sessionStorage.setItem(KEPT, token);
    if (this.heard) this.heard();
  }

  forget() {
    this.token = "";
    sessionStorage.removeItem(KEPT);
  }

  /** A key in the address, a token kept by this tab, or one of another tab; false: somebody must sign in. */
  async begin() {
    const key = new URLSearchParams(location.hash.slice(1)).get("key");
    if (key) {
      history.replaceState(null, "", "/#/");
      const answer = await fetch("/v1/page/enter", { method: "POST", body: JSON.stringify({ key }),
        headers: { "content-type": "application/json" } });
      const told = await answer.json();
      if (!answer.ok) throw new Refused(answer.status, told);
      this.keep(told.token);
    }
    if (!this.token) {
      this.channel.postMessage({ kind: "ask" });
      await new Promise((done) => { this.heard = done; setTimeout(done, 150); });
    }
    return Boolean(this.token);
  }

  async leave() {
    const [name] = this.token.split(".");
    await fetch(`/v1/tokens/${encodeURIComponent(name)}`, { method: "DELETE", headers: this.headers() }).catch(() => {});
    this.forget();
    this.channel.postMessage({ kind: "left" });
    location.reload();
  }

  headers() {
    return { authorization: `Bearer ${this.token}` };
  }
}

export class Source {
  constructor(session) {
    this.session = session;
    this.about = null;
    this.run = 0; // which of several finished runs
    this.at = null; // the instant looked at in a finished run
    this.listeners = new Set();
    this.status = "connecting";
    this.offset = 0; // the server's clock minus ours, in seconds
  }

  get live() { return this.about.source === "live"; }

  get clock() { return this.live ? "unix" : "run"; }

  /** Now on the server's clock, or the instant looked at. */
  now() { return this.live ? Date.now() / 1000 + this.offset : this.at; }

  async open() {
    this.about = await this.ask("about");
    if (!this.live && this.at === null) this.at = this.about.at;
    return this.about;
  }

  /** A document of the page. */
  async ask(path, query = {}) {
    const answer = await this.fetch(path, query);
    const told = await answer.json();
    if (this.about && this.live && told.at) this.offset = told.at - Date.now() / 1000;
    return told;
  }

  /** Packed columns of the page. */
  async columns(path, query = {}) {
    const { unpack } = await import("./packed.js");
    return unpack(await (await this.fetch(path, query)).arrayBuffer());
  }

  async fetch(path, query) {
    const given = { ...query };
    if (this.about && !this.live) {
      given.run ??= this.run;
      given.at ??= this.at;
    }
    const words = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== null && value !== "")
      .map(([key, value]) => [key, String(value)]));
    return this.call("GET", `/v1/page/${path}${words.size ? `?${words}` : ""}`);
  }

  /** Something changed by whoever may; an answer comes when it is on the disk. */
  async change(method, path, body) {
    return (await this.call(method, `/v1/${path}`, body)).json();
  }

  async text(path) { return (await this.call("GET", `/v1/${path}`)).text(); }

  async call(method, address, body) {
    const headers = this.session.headers();
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
    return answer;
  }

  // ---- events ------------------------------------------------------------------------------------------------------

  /** Call `heard(events)` soon after something happened; several events in a moment make one call. */
  watch(heard) {
    this.listeners.add(heard);
    return () => this.listeners.delete(heard);
  }

  tell(events) {
    this.pending = [...(this.pending || []), ...events];
    if (this.timer) return;
    const wait = Math.max(0, 350 - (performance.now() - (this.told || 0)));
    this.timer = setTimeout(async () => {
      const batch = this.pending;
      this.pending = [];
      await Promise.allSettled([...this.listeners].map((heard) => heard(batch)));
      this.told = performance.now();
      this.timer = null;
      if (this.pending.length) this.tell([]);
    }, wait);
  }

  /** Server-sent events, read with a token in a header; connects again whenever the connection ends. */
  async listen(onStatus) {
    let pause = 500;
    for (;;) {
      try {
        const answer = await this.call("GET", "/v1/events");
        onStatus(this.status = "live");
        this.tell([{ kind: "connected" }]);
        pause = 500;
        await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      } catch (error) {
        if (error.status === 401) { this.session.forget(); location.reload(); return; }
      }
      onStatus(this.status = "reconnecting");
      await new Promise((done) => { setTimeout(done, pause); });
      pause = Math.min(2 * pause, 15000);
    }
  }

  async read(reader) {
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      const events = blocks.map(parse).filter(Boolean);
      if (events.length) this.tell(events);
    }
  }
}

function parse(block) {
  let kind = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return data ? { kind, ...JSON.parse(data) } : null;
}
