"""Use slurmrestd as a second way to Slurm: what its own description offers is done there, the rest by commands.

The version is the newest one that it describes (/openapi/v3) and that tells all we need. In Slurm 22.05 (v0.0.38) it
lists and shows jobs and nodes, holds, releases, cancels and changes limits, but it cannot place a job or write an
administrators' comment; later versions can. When it does not answer, one sentence says so and commands are used until
it does.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from cohabit.backend.slurm import json_output
from cohabit.backend.slurm.calls import ABSENT, Calls
from cohabit.backend.slurm.commands import TELLS_SHARING, is_number
from cohabit.backend.slurm.json_output import form_number
from cohabit.backend.slurm.steering import SlurmManager
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.marks import read_mark
from cohabit.backend.steered.shapes import ManagerJob, ManagerNode

TIMEOUT_S = 10.0
AGAIN_S = 10.0  # pause before a slurmrestd that did not answer is asked again
OLDEST = "v0.0.38"  # v0.0.36 of 20.11 does not say that a node is drained
BEFORE_S = 2.0  # changes in the second of the last query are asked for again
_PATH = re.compile(r"^/slurm/(v[0-9.]+)/jobs/?$")
log = logging.getLogger(__name__)
T = TypeVar("T")


class RestAway(Exception):
    """slurmrestd itself did not answer, or its answer is not understood."""


class Described:
    """The description that a slurmrestd gives of itself."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        found = {match.group(1): path for path in document.get("paths", {}) if (match := _PATH.match(path))}
        if not found:
            raise RestAway("it describes no list of jobs")
        self._schemas: dict[str, Any] = document.get("components", {}).get("schemas", {})
        complete = [version for version in found if self._tells_all(version)]
        if not complete:
            raise RestAway(f"{', '.join(found)} leaves out which nodes are drained, or which jobs want nodes whole")
        self.version = max(complete, key=form_number)
        self.jobs = found[self.version]
        job = document["paths"].get(f"/slurm/{self.version}/job/{{job_id}}", {})
        body = job.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        self._keys: dict[str, Any] = self._resolved(body.get("schema", {})).get("properties", {})
        self.cancels = "delete" in job

    def _tells_all(self, version: str) -> bool:
        told = self._schemas.get(f"{version}_job_info", {}).get("properties", {})
        number = form_number(version)
        return form_number(OLDEST) <= number <= form_number(TELLS_SHARING) or "exclusive" in told

    def changes(self, *keys: str) -> bool:
        """Return whether all of these fields of a job can be changed."""
        return all(key in self._keys for key in keys)

    def number(self, key: str, value: int) -> Any:
        """Return a number as this version wants it: plain, or with a flag that it is set."""
        known = self._resolved(self._keys.get(key, {})).get("properties", {})
        return {"set": True, "infinite": False, "number": value} if "set" in known else value

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        return self._schemas.get(name, {}) if name else schema


class Rest:
    """One slurmrestd: `unix:PATH` (the kernel authenticates the caller) or a URL, with a token in a file (JWT)."""

    def __init__(self, address: str, token: Path | None = None, user: str = "", kept: str = "") -> None:
        """`kept`: the token as read earlier, for a controller that has given up the right to read it."""
        self.address, self._token, self._user, self._kept = address, token, user, kept
        path = address.removeprefix("unix:") if address.startswith("unix:") else None
        transport = httpx.AsyncHTTPTransport(uds=path) if path else None
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://slurm" if path else address, timeout=TIMEOUT_S, trust_env=False
        )
        self._described: Described | None = None
        self.made = 0

    async def described(self) -> Described:
        """Return its description; asked for once, and again after it was away."""
        if self._described is None:
            self._described = Described(_decoded((await self._send("GET", "/openapi/v3")).content))
        return self._described

    async def ask(self, method: str, path: str, body: Any = None, since_s: int = 0) -> bytes | None:
        """Return its answer; None: nothing has changed since then. A refusal by Slurm itself is ManagerRefused."""
        answer = await self._send(method, path, body, {"update_time": str(since_s)} if since_s else None)
        if answer.status_code == httpx.codes.NOT_MODIFIED:
            return None
        if answer.status_code in (401, 403, 405):
            raise RestAway(f"it answers {answer.status_code}")
        judge(_decoded(answer.content))
        if answer.status_code == httpx.codes.NOT_FOUND:  # also used for other things than an unknown job
            raise RestAway(f"it answers {answer.status_code}")
        return answer.content

    async def _send(
        self, method: str, path: str, body: Any = None, asked: Mapping[str, str] | None = None
    ) -> httpx.Response:
        headers = {}
        if self._token is not None:
            try:
                text = read_token(self._token)
            except OSError as error:
                if not self._kept:
                    raise RestAway(f"its token cannot be read: {(error.strerror or str(error)).lower()}") from error
                text = self._kept
            headers = {"X-SLURM-USER-TOKEN": text}
            headers |= {"X-SLURM-USER-NAME": self._user} if self._user else {}
        self.made += 1
        try:
            return await self._client.request(method, path, json=body, headers=headers, params=asked)
        except httpx.HTTPError as error:
            self._described = None
            raise RestAway(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()


def read_token(path: Path) -> str:
    """Read a token (JWT) from a file."""
    return path.read_text(encoding="ascii").strip()


def judge(document: Mapping[str, Any]) -> None:
    """Raise the exception that an answer reports."""
    errors = [one for one in document.get("errors") or () if isinstance(one, dict)]
    if errors:
        said = "; ".join(str(one.get("description") or one.get("error")) for one in errors)
        every = " ".join(f"{one.get('description')} {one.get('error')}" for one in errors).lower()
        raise ManagerAway(said) if any(sign in every for sign in ABSENT) else ManagerRefused(said)


def _decoded(content: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise RestAway("its answer is not JSON") from error
    if not isinstance(found, dict):
        raise RestAway("its answer is not an object")
    return found


class RestManager(SlurmManager):
    """Slurm through slurmrestd, and through commands where slurmrestd lacks something or does not answer."""

    def __init__(self, calls: Calls, rest: Rest) -> None:
        super().__init__(calls)
        self.rest, self._again_s, self._away = rest, 0.0, False
        self._asked_s, self._jobs = 0, list[ManagerJob]()

    @property
    def made(self) -> int:
        """Calls so far, of both kinds."""
        return self.calls.made + self.rest.made

    async def jobs(self) -> list[ManagerJob]:
        """Return every job Slurm remembers."""
        return await self._either(self._list, super().jobs)

    async def nodes(self) -> list[ManagerNode]:
        return await self._either(self._nodes, super().nodes)

    async def job(self, name: str) -> ManagerJob | None:
        """Return one job; tasks of arrays are asked for by command, as 22.05 does not show them."""
        if not is_number(name):
            return await super().job(name)
        return await self._either(lambda: self._show(name), lambda: super(RestManager, self).job(name))

    async def place(self, name: str, nodes: Sequence[str], cores: int, mark: str) -> None:
        values = {
            "required_nodes": list(nodes),
            "minimum_nodes": len(nodes),
            "maximum_nodes": len(nodes),
            "minimum_cpus_per_node": cores,
            "admin_comment": mark,
            "begin_time": int(time.time()),
        }
        if (read := read_mark(mark)) is not None and read.before.made:  # cannot be said through slurmrestd
            await super().place(name, nodes, cores, mark)
            return
        await self._change([name], values, lambda: super(RestManager, self).place(name, nodes, cores, mark))

    async def mark(self, names: Sequence[str], text: str) -> None:
        await self._change(names, {"admin_comment": text}, lambda: super(RestManager, self).mark(names, text))

    async def release(self, names: Sequence[str]) -> None:
        await self._change(names, {"hold": False}, lambda: super(RestManager, self).release(names))

    async def limit(self, name: str, limit_s: float) -> None:
        minutes = max(int(-(-limit_s // 60)), 1)
        await self._change([name], {"time_limit": minutes}, lambda: super(RestManager, self).limit(name, limit_s))

    async def cancel(self, name: str) -> None:
        async def delete() -> None:
            described = await self.rest.described()
            if not described.cancels or not is_number(name):
                await super(RestManager, self).cancel(name)
                return
            await self.rest.ask("DELETE", f"/slurm/{described.version}/job/{name}")

        await self._either(delete, lambda: super(RestManager, self).cancel(name))

    # ---- asking -----------------------------------------------------------------------------------------------------

    async def _list(self) -> list[ManagerJob]:
        path, now_s = (await self.rest.described()).jobs, int(time.time() - BEFORE_S)
        said = await self.rest.ask("GET", path, since_s=self._asked_s)
        if said is not None:
            self._jobs = json_output.jobs(said)
        self._asked_s = now_s
        return self._jobs

    async def _nodes(self) -> list[ManagerNode]:
        said = await self.rest.ask("GET", f"/slurm/{(await self.rest.described()).version}/nodes")
        assert said is not None
        return json_output.nodes(said)

    async def _show(self, name: str) -> ManagerJob | None:
        path = f"/slurm/{(await self.rest.described()).version}/job/{name}"
        try:
            said = await self.rest.ask("GET", path)
        except ManagerRefused:
            return None
        return next((job for job in json_output.jobs(said or b"{}") if job.name == name), None)

    async def _change(
        self, names: Sequence[str], values: Mapping[str, Any], command: Callable[[], Awaitable[None]]
    ) -> None:
        async def post() -> None:
            described = await self.rest.described()
            if not described.changes(*values) or not all(map(is_number, names)):
                await command()
                return
            body = {
                key: described.number(key, value) if isinstance(value, int) and not isinstance(value, bool) else value
                for key, value in values.items()
            }
            paths = [f"/slurm/{described.version}/job/{name}" for name in names]
            await asyncio.gather(*(self.rest.ask("POST", path, body) for path in paths))

        await self._either(post, command)

    async def _either(self, ask: Callable[[], Awaitable[T]], otherwise: Callable[[], Awaitable[T]]) -> T:
        if time.monotonic() < self._again_s:
            return await otherwise()
        try:
            found = await ask()
        except RestAway as error:
            if not self._away:
                log.warning("slurmrestd at %s does not answer (%s): commands are used", self.rest.address, error)
            self._away, self._again_s, self._asked_s = True, time.monotonic() + AGAIN_S, 0
            return await otherwise()
        if self._away:
            log.warning("slurmrestd answers again")
            self._away = False
        return found
