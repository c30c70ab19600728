"""Write down in the manager what is known of holds, and stop runs so that a later controller knows who did it."""

from __future__ import annotations

from cohabit.backend.steered.contract import Manager
from cohabit.backend.steered.marks import BACK, HELD, NOTED, STOP, flagged, read_mark
from cohabit.backend.steered.shapes import BY_OWNER

FREED, NEW = "free", "mark"  # instead of a flag


async def note(manager: Manager, name: str, what: str) -> None:
    """Write a flag into the mark of a job that is ours; FREED: we alone hold it from now on; NEW: give it a mark."""
    if what == NEW:
        await manager.mark([name], HELD)
        return
    job = await manager.job(name)
    if job is None or not job.waits or (mark := read_mark(job.mark)) is None or mark.kind == BACK:
        return
    if what != FREED:
        await manager.mark([name], flagged(job.mark, what))
        return
    if job.held and job.held_by == BY_OWNER:  # the plug-in that wrote it down takes it out, and the job stays held
        await manager.mark([name], flagged(job.mark, NOTED))
        await manager.release([name])
    elif not job.held:
        await manager.hold(name)
    elif job.held_by:  # an owner's hold is what ours is
        await manager.give_to_owner(name, flagged(job.mark, ""))
    await manager.mark([name], flagged(job.mark, ""))


async def stop_run(manager: Manager, name: str) -> None:
    """Stop a run and leave the job in the queue, held by us: the flag tells that it was no operator."""
    job = await manager.job(name)
    if job is not None and read_mark(job.mark) is not None:
        await manager.mark([name], flagged(job.mark, STOP))
    await manager.requeue_held(name)
