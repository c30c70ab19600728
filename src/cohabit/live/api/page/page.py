"""Adds the page to the controller's app: its files, its login and the data it reads."""

from __future__ import annotations

from fastapi import FastAPI

from cohabit.live.api.page import data as page_data
from cohabit.live.api.page import door as page_door
from cohabit.live.api.page import files as page_files
from cohabit.live.api.page.origin import SameOrigin


def install(app: FastAPI) -> None:
    """Add the page to an app; the server sets the address for browsers later (page_door.PageDoor.address)."""
    app.state.page_door = page_door.PageDoor()
    app.include_router(page_files.router)
    app.include_router(page_door.router)
    app.include_router(page_data.router)
    app.add_middleware(SameOrigin)
