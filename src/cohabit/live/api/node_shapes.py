"""The documents about nodes and the windows in which they are closed."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from cohabit.live.api.shapes import NAME, Shape

FAR = 1e11  # Unix time in seconds


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("a name has 1 to 64 letters, digits, dots, hyphens and underscores")
    return text


class Reservation(Shape):
    """A window in which nodes start no jobs that would run into it."""

    name: Annotated[str, Field(json_schema_extra={"pattern": f"^{NAME.pattern}$"}), AfterValidator(_name)]
    nodes: Annotated[str, Field(min_length=1, max_length=4096, description="as 0-3,7 or n[0-3,7]")]
    begin: Annotated[float, Field(ge=0, le=FAR, allow_inf_nan=False, description="Unix time in seconds")]
    end: Annotated[float, Field(ge=0, le=FAR, allow_inf_nan=False)]


class NodeView(BaseModel):
    """A node as callers see it."""

    node: int
    name: str
    state: str
    cores: int
    used_cores: int
    jobs: list[str]
    ways: int | None
    used_ways: int | None
    used_bandwidth_gbs: float | None
    bandwidth_gbs: float | None


class WindowView(BaseModel):
    """A window: these nodes start no jobs that would run into it."""

    name: str
    nodes: str
    begin: float
    end: float


class NodeList(BaseModel):
    """All nodes, and the windows in which some are closed."""

    nodes: list[NodeView]
    windows: list[WindowView]
