"""The route by which a controller of a resource manager reads its site file again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import PROBLEMS, Identified, Service, reply
from cohabit.live.api.shapes import Shape

router = APIRouter(tags=["site"], responses=PROBLEMS)


class SiteContents(Shape):
    """A site file, read and checked by its sender."""

    folder: Annotated[str, Field(max_length=4096)]
    tables: Annotated[str, Field(max_length=1_000_000)]  # JSON


class Reloaded(BaseModel):
    """What another site file has changed."""

    changed: bool  # whether the core goes on under other settings
    was: str
    policy: str
    waiting: int  # jobs that were kept
    running: int
    profiles: int  # told again
    remarks: list[str]  # what the policy has to do without


@router.post("/v1/reload", responses={200: {"model": Reloaded}})
async def reload(contents: SiteContents, parts: Service, caller: Identified) -> Response:
    """Go on under the policy of this site file, with all jobs (administrators, over the
    socket). Everything is checked first: a refusal
    leaves all as it was."""
    if not (caller.administers and caller.local):  # a policy may name files, of code, too
        raise Refusal(403, "only administrators on this machine may do this", "reload", "ask one, or root")
    if parts.reload is None:
        what = "only a controller on top of a resource manager can change its policy while it runs"
        raise Refusal(409, what, "reload", "stop it and start it again")
    work = parts.reload(contents.folder, contents.tables)
    return reply(await parts.change(caller, "reload", "site file", work, named=lambda found: str(found["policy"])))
