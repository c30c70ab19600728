"""What people may ask of a living controller besides submitting: durable when answered, refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.serve.serving import Parts
from cohabit.live.controller import admission
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.recovery import verify
from cohabit.live.controller.refusals import UnknownJob, UnknownNode, WrongState
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from tests.live.controller.playing import ended, job, play, shell, until


def test_a_job_is_held_released_and_changed(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("first", 2), shell("sleep 60"))
        await until(controller, "first", "running")
        await controller.submit(job("second"), shell("exit 0"))
        await controller.hold("second")
        assert (await controller.view("second")).state == "held"
        with pytest.raises(WrongState, match="is held already"):
            await controller.hold("second")
        await controller.change("second", limit_us=5 * SECOND, qos=7)
        record = (await controller.view("second")).record
        assert (record.limit_us, record.qos) == (5 * SECOND, 7)
        await controller.cancel("first")
        assert await ended(controller, "first") == ["cancelled"]
        assert (await controller.view("second")).state == "held"
        await controller.release("second")
        assert await ended(controller, "second") == ["done"]
        explained = await controller.why("second")
        assert [note.why for note in explained.history] == ["held: it must be released first", "released"]
        assert explained.why == "ran on node 0, which it had to itself"

    play(tmp_path, scene)


def test_a_running_job_is_queued_again_and_runs_anew(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        runs = tmp_path / "runs.txt"
        await controller.submit(job("again"), shell(f'echo run >> {runs}; test "$COHABIT_ATTEMPT" = 2 || sleep 60'))
        while not runs.exists():
            await until(controller, "again", "running")
        await controller.requeue("again")
        assert await ended(controller, "again") == ["done"]
        record = (await controller.view("again")).record
        assert (record.attempt, runs.read_text()) == (2, "run\nrun\n")
        assert [note.why for note in record.notes] == ["it is to be queued again", "run 1 was stopped"]

    play(tmp_path / "place", scene)


def test_nothing_starts_on_a_drained_node_until_it_is_used_again(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.drain(0)
        await controller.submit(job("a"), shell("exit 0"))
        assert await ended(controller, "a") == ["done"]
        assert (await controller.view("a")).record.nodes == ((1, 1),)
        await controller.drain(1)
        await controller.submit(job("b"), shell("exit 0"))
        assert (await controller.view("b")).state == "queued"
        await controller.resume(0)
        assert await ended(controller, "b") == ["done"]
        with pytest.raises(UnknownNode, match="numbered 0 to 1"):
            await controller.drain(2)

    play(tmp_path, scene)


def test_what_the_state_does_not_allow_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("runs", requeue=False), shell("sleep 60"))
        await until(controller, "runs", "running")
        await controller.submit(job("ended"), shell("exit 3"))
        assert await ended(controller, "ended") == ["failed"]
        await controller.submit(job("waits", 2), shell("exit 0"))
        for verb in (controller.cancel, controller.hold, controller.release, controller.requeue, controller.change):
            with pytest.raises(UnknownJob, match="no such job"):
                await verb("nobody")
            with pytest.raises(WrongState, match="is over: failed"):
                await verb("ended")
        for verb, name, why in (
            (controller.hold, "runs", "runs already"), (controller.change, "runs", "runs already"),
            (controller.release, "waits", "is not held"), (controller.requeue, "waits", "waits in the queue already"),
            (controller.requeue, "runs", "must not be run again"),
        ):  # fmt: skip
            with pytest.raises(WrongState, match=why):
                await verb(name)
        with pytest.raises(InputError, match="longer than 0 s"):
            await controller.change("waits", limit_us=0)
        await controller.cancel("waits")
        await controller.cancel("runs")
        assert await ended(controller, "waits", "runs") == ["cancelled"] * 2

    play(tmp_path, scene)


def test_an_array_is_one_name_for_all_its_members(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        array = job("many", array_first=3, array_count=4)
        await controller.submit(array, shell("sleep 60"))
        await until(controller, "many_3", "running")
        assert (await controller.view("many")).state == "running"
        for taken in ("many", "many_5"):
            with pytest.raises(InputError, match="was here before"):
                await controller.submit(job(taken), shell("exit 0"))
        await controller.hold("many")
        assert [(await controller.view(f"many_{n}")).state for n in (5, 6)] == ["held"] * 2
        listed = await controller.page()
        assert [one.record.job_id for one in listed.jobs] == ["many_6", "many_5", "many_4", "many_3"]
        assert {one.record.array for one in listed.jobs} == {"many"}
        await controller.cancel("many")
        assert await ended(controller, "many") == ["cancelled"]
        with pytest.raises(WrongState, match="is over: cancelled"):
            await controller.cancel("many")
        with pytest.raises(InputError, match="needs 3 nodes"):
            await controller.submit(job("wide", 3, array_count=2), shell("exit 0"))

    play(tmp_path, scene)


def test_jobs_that_are_forgotten_can_still_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core knows of two ends at most, and decides as if it knew them all, also when the journal is replayed."""
    monkeypatch.setattr(admission, "FORGET_AT", 2)

    async def scene(controller: Controller, parts: Parts) -> None:
        for name, text in (("good", "exit 0"), ("bad", "exit 1"), ("c", "exit 0"), ("d", "exit 0"), ("e", "exit 0")):
            await controller.submit(job(name), shell(text))
            await ended(controller, name)
        known = await controller.ask(lambda core: dict(core.state.finished))
        assert not {"good", "bad"} & set(known)
        await controller.submit(job("after good", after=("good",)), shell("exit 0"))
        with pytest.raises(InputError, match="job bad it depends on did not finish well"):
            await controller.submit(job("after bad", after=("good", "bad")), shell("exit 0"))
        await controller.submit(job("after any", after=("bad",), after_any=True), shell("exit 0"))
        assert await ended(controller, "after good", "after any") == ["done"] * 2
        assert len(await controller.ask(lambda core: dict(core.state.finished))) <= 4
        states = await controller.states(["good", "bad", "after good", "nobody"])
        assert states == {"good": "done", "bad": "failed", "after good": "done"}

    async def check(controller: Controller, parts: Parts) -> None:
        assert verify(parts.journal, parts.cluster, parts.policies).difference == ""

    play(tmp_path, scene)
    play(tmp_path, check)
