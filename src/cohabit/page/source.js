// Where everything on the page comes from: one interface over a running scheduler and over finished runs.
// Both answer the same questions under /v1/page; only a running one has events and takes changes.

const KEPT = "cohabit-session";

export class Refused extends Error {
  constructor(status, told) {
    super(told.error || `the server answered ${status}`);
    this.status = status;
    this.where = told.where || "";
    this.fix = told.fix || "";
  }
}

// ---- signatures (live/api/page/sessions.py says what they are made of) ----------------------------------------------

const bytes = (text) => new TextEncoder().encode(text);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) || [], (pair) => parseInt(pair, 16));
const sha256 = async (text) => hex(await crypto.subtle.digest("SHA-256", bytes(text)));

function drawn() {
  return btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(18)))).replaceAll("+", "-").replaceAll("/", "_");
}

async function sign(secret, ...words) {
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(await crypto.subtle.sign("HMAC", key, bytes(words.join("\n"))));
}

async function post(path, body) {
  const answer = await fetch(`/v1/page/${path}`, { method: "POST", body: JSON.stringify(body),
    headers: { "content-type": "application/json" } });
  const told = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, told);
  return told;
}

/** The session of this tab; other tabs of the same page are asked for theirs. Its secret signs requests and is not sent:
 *  a process that listens on this port later learns nothing that opens another door. */
export class Session {
  constructor() {
    this.kept = JSON.parse(sessionStorage.getItem(KEPT) || "null");
    this.channel = new BroadcastChannel("cohabit-session");
    this.channel.onmessage = ({ data }) => {
      if (data.kind === "ask" && this.kept) this.channel.postMessage({ kind: "have", kept: this.kept });
      if (data.kind === "have" && !this.kept) this.keep(data.kept);
      if (data.kind === "left") { this.forget(); location.reload(); }
    };
  }

  keep(kept) {
    this.kept = kept;
    sessionStorage.setItem(KEPT, JSON.stringify(kept));
    if (this.heard) this.heard();
  }

  forget() {
    this.kept = null;
    sessionStorage.removeItem(KEPT);
  }

  /** A key in the address, a session kept by this tab, or one of another tab; false: a sign-in is needed. */
  async begin() {
    const link = new URLSearchParams(location.hash.slice(1)).get("key");
    if (link) {
      history.replaceState(null, "", "/#/");
      const [key, secret] = link.split(".");
      const nonce = drawn();
      const proof = await sign(bytes(secret || " "), "enter", nonce);
      await this.enter(bytes(secret || " "), nonce, { key, proof, nonce });
    }
    if (!this.kept) {
      this.channel.postMessage({ kind: "ask" });
      await new Promise((done) => { this.heard = done; setTimeout(done, 150); });
    }
    return Boolean(this.kept);
  }

  /** With a token that was typed; it is sent once, and only to a server that proves it knows it. */
  async signIn(token) {
    const [nonce, known] = [drawn(), bytes(await sha256(token))];
    const { proof } = await post("prove", { id: token.split(".")[0].slice(0, 40), nonce });
    if (proof !== await sign(known, "prove", nonce)) {
      throw new Refused(401, { error: "the token is wrong, expired or revoked, or this is another server; it was not sent" });
    }
    await this.enter(known, nonce, { token, nonce });
  }

  async enter(known, nonce, entry) {
    const told = await post("enter", entry);
    const secret = await sign(known, "session", nonce, told.nonce);
    if (told.proof !== await sign(unhex(secret), "server")) throw new Refused(401, { error: "this is another server" });
    this.keep({ id: told.id, secret, ahead: told.at * 1000 - Date.now() });
  }

  async leave() {
    const headers = await this.headers("POST", "/v1/page/leave", "");
    await fetch("/v1/page/leave", { method: "POST", headers }).catch(() => {});
    this.forget();
    this.channel.postMessage({ kind: "left" });
    location.reload();
  }

  /** What proves that this request is ours, for a minute and once. */
  async headers(method, address, body) {
    if (!this.kept) return {};
    const { pathname, search } = new URL(address, location.origin);
    const [at, nonce] = [String(Math.round(Date.now() + this.kept.ahead)), drawn()];
    const words = ["request", method, pathname + search, at, nonce, await sha256(body)];
    return { authorization: `Page ${this.kept.id} ${at} ${nonce} ${await sign(unhex(this.kept.secret), ...words)}` };
  }
}

export class Source {
  constructor(session) {
    this.session = session;
    this.about = null;
    this.run = 0; // which of several finished runs
    this.at = null; // the instant looked at in a finished run
    this.listeners = new Set();
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

  /** A change by a user with the right to it; an answer comes when it is on the disk. */
  async change(method, path, body) {
    return (await this.call(method, `/v1/${path}`, body)).json();
  }

  async text(path) { return (await this.call("GET", `/v1/${path}`)).text(); }

  async call(method, address, body) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = await this.session.headers(method, address, text || "");
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(address, { method, headers, body: text });
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

  /** Server-sent events, asked for with a signature in a header; connects again whenever the connection ends. */
  async listen(onStatus) {
    let pause = 500;
    for (;;) {
      try {
        const answer = await this.call("GET", "/v1/events");
        onStatus("live");
        this.tell([{ kind: "connected" }]);
        pause = 500;
        await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      } catch (error) {
        if (error.status === 401) { this.session.forget(); location.reload(); return; }
      }
      onStatus("reconnecting");
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
