"""The routes of windows: an operator closes nodes to new jobs for a time, under a name, and opens them again."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Response

from cohabit.live.api.node_shapes import Reservation, WindowView
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import PROBLEMS, Identified, Service, operator, reply
from cohabit.live.api.shapes import Short
from cohabit.live.api.views import window_views
from cohabit.live.controller.refusals import UnknownWindow
from cohabit.model.event import WindowSet
from cohabit.model.node_names import read_nodes
from cohabit.model.units import microseconds

router = APIRouter(responses=PROBLEMS)


@router.post("/v1/windows", responses={200: {"model": WindowView}}, tags=["nodes"])
async def reserve(wish: Reservation, parts: Service, caller: Identified) -> Response:
    """Announce a window, or change the one of this name: no job starts that would run into it; what runs goes on."""
    operator(caller, f"window {wish.name}")
    await parts.change(caller, "reserve", f"window {wish.name}", _reserved(parts, wish))
    return reply(await _view(parts, wish.name))


@router.delete("/v1/windows/{name}", responses={200: {"model": WindowView}}, tags=["nodes"])
async def unreserve(name: Short, parts: Service, caller: Identified) -> Response:
    """Drop a window that an operator announced."""
    operator(caller, f"window {name}")
    if ":" in name:
        raise Refusal(409, "it is a reservation of the resource manager", f"window {name}", "delete it there")
    return reply(await parts.change(caller, "unreserve", f"window {name}", _dropped(parts, name)))


async def _reserved(parts: Parts, wish: Reservation) -> None:
    where = f"window {wish.name}"
    try:
        nodes = read_nodes(wish.nodes, parts.living.cluster.names)
    except ValueError as error:
        raise Refusal(422, str(error), where, "name nodes as cohabit nodes does") from None
    if wish.end <= wish.begin:
        raise Refusal(422, "it ends before it begins", where, "give a later end")
    if wish.end <= time.time():
        raise Refusal(422, "it has ended already", where, "give an end in the future")
    told = WindowSet(wish.name, microseconds(wish.begin), microseconds(wish.end), nodes)
    await parts.controller.reserve(told)


async def _dropped(parts: Parts, name: str) -> dict[str, Any]:
    found = await _view(parts, name)
    if not found:
        raise UnknownWindow(name)
    await parts.controller.unreserve(name)
    return found


async def _view(parts: Parts, name: str) -> dict[str, Any]:
    found = await parts.controller.ask(window_views)
    return next((one for one in found if one["name"] == name), {})
