"""The route about profiles: an operator makes one user's profile of a program the shared profile of all users.

Nothing else in the API writes a shared profile: runs and `reprofile` change their owner's (core/known_programs.py).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import PROBLEMS, Service, Who, operator, reply
from cohabit.live.api.shapes import Short, UserName
from cohabit.model.profile import owner_of

router = APIRouter(prefix="/v1/profiles", tags=["profiles"], responses=PROBLEMS)


class ProfileShare(BaseModel):
    """The program and the user of the profile to share."""

    model_config = ConfigDict(extra="forbid", strict=True)
    program: Annotated[Short, Field(min_length=1)]
    user: Annotated[UserName, Field(min_length=1)]


class ProfileSharing(BaseModel):
    """The shared program, its user and the number of profiles."""

    program: str
    user: str
    profiles: int


@router.post("/share", responses={200: {"model": ProfileSharing}})
async def share(wish: ProfileShare, parts: Service, caller: Who) -> Response:
    """Make a user's profile of a program the one for all users without a profile of it."""
    about = f"{wish.program} of {wish.user}"
    operator(caller, f"profile {about}")
    number = await parts.accounts.number_of(wish.user)
    if number is None:
        raise Refusal(404, "there is no such user", f"user {wish.user}", "check the name")
    owner = owner_of(number)
    await parts.change(caller, "share profile", about, parts.controller.share_profile(wish.program, owner))
    count = await parts.controller.ask(lambda core: len(core.state.profiles.get(wish.program, {})))
    return reply({"program": wish.program, "user": await parts.accounts.name_of(number), "profiles": count})
