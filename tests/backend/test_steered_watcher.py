"""Two pictures of Slurm to facts, without a Slurm: what is told, in which order, and what is wished for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cohabit.backend.steered.dependencies import MET, NEVER, UNMET, Others
from cohabit.backend.steered.known import ORDERED, PARKED, QUEUED, RUNS, Known, Picture, Wishes
from cohabit.backend.steered.marks import BACK, HELD, NOTED, Before, run_mark
from cohabit.backend.steered.node_facts import condition
from cohabit.backend.steered.shapes import (
    BY_ADMINISTRATOR,
    BY_CORES,
    BY_OWNER,
    BY_REQUEST,
    NOT_WHOLE,
    Discovered,
    ManagerJob,
    ManagerNode,
    ManagerWindow,
    Terms,
)
from cohabit.backend.steered.watcher import Watcher
from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.command import StartJob
from cohabit.model.event import (
    Event,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStarted,
    JobSubmitted,
    NodeDown,
    NodeDrained,
    NodeUp,
    NodeUsed,
    StartRefused,
    WindowCleared,
    WindowSet,
)
from cohabit.model.units import SECOND

NAMES = ("n0", "n1")
WAITS = ManagerJob(
    "1", 1, "PENDING", held=True, partition="all", mark=HELD, tasks=4, cpus=4, limit_s=60.0, submit_s=5.0
)
RUN_1 = run_mark(1, Before(1, 0, 1, 4))


def changed(job: ManagerJob, **values: object) -> ManagerJob:
    return msgspec.structs.replace(job, **values)


def look(watcher: Watcher, *jobs: ManagerJob, now_s: float = 100.0, n0: str = "IDLE") -> tuple[list[Event], Wishes]:
    nodes = [ManagerNode("n0", 28, states=(n0,)), ManagerNode("n1", 28, states=("IDLE",))]
    return watcher.look(Picture(now_s, {job.name: job for job in jobs}, nodes))


def fresh() -> Watcher:
    return Watcher(NAMES, Terms(("all",), node_cpus=28), "Slurm", patience_s=20)


def with_job(phase: str, job: ManagerJob = WAITS) -> tuple[Watcher, Known]:
    watcher = fresh()
    known = watcher.take(job, 1 if phase in (ORDERED, RUNS) else 0, phase)
    known.nodes = ("n0",)
    return watcher, known


def test_held_jobs_are_told_once_and_in_the_order_they_came() -> None:
    watcher = fresh()
    later = changed(WAITS, name="2", number=2, submit_s=9.0)
    facts, _ = look(watcher, later, WAITS)
    assert [one.job.job_id for one in facts if isinstance(one, JobSubmitted)] == ["1", "2"]
    assert look(watcher, later, WAITS)[0] == []


def test_a_start_a_run_and_an_end() -> None:
    watcher, _ = with_job(ORDERED)
    runs = changed(WAITS, state="RUNNING", held=False, mark=RUN_1, nodes=("n0",))
    assert look(watcher, runs)[0] == [JobStarted("1", 1)]
    assert look(watcher, runs)[0] == []
    over = changed(runs, state="FAILED", exit_status=3, end_s=99.0)
    assert look(watcher, over)[0] == [JobFinished("1", 1, "failed", 3)]
    assert look(watcher, over)[0] == []


def test_a_number_that_comes_back_is_left_to_slurm() -> None:
    watcher, _ = with_job(RUNS, changed(WAITS, state="RUNNING", held=False, mark=RUN_1, nodes=("n0",)))
    assert look(watcher, changed(WAITS, state="COMPLETED", held=False, nodes=("n0",)))[0] == [JobFinished("1", 1)]
    assert look(watcher, changed(WAITS, submit_s=90.0))[1].pass_on == {"1": "has the name of an earlier job"}


def test_a_run_that_came_and_went_between_two_looks() -> None:
    watcher, _ = with_job(ORDERED)
    over = changed(WAITS, state="COMPLETED", held=False, mark=RUN_1, nodes=("n0",), exit_status=0)
    assert look(watcher, over)[0] == [JobStarted("1", 1), JobFinished("1", 1, "done", 0)]


def test_other_nodes_than_ordered_are_refused() -> None:
    watcher, known = with_job(ORDERED)
    facts, wishes = look(watcher, changed(WAITS, state="RUNNING", held=False, mark=RUN_1, nodes=("n1",)))
    assert isinstance(facts[0], StartRefused)
    assert (wishes.stop, known.phase) == (["1"], QUEUED)


def test_a_released_job_that_does_not_start_is_taken_back_in_time() -> None:
    watcher, known = with_job(ORDERED)
    known.touched_s = 90.0
    released = changed(WAITS, held=False, mark=RUN_1)
    assert not look(watcher, released, now_s=105.0)[1].take_back
    assert look(watcher, released, now_s=111.0)[1].take_back == ["1"]


def test_a_picture_older_than_our_own_act_says_nothing() -> None:
    watcher, known = with_job(ORDERED)
    known.touched_s = 101.0
    assert look(watcher, WAITS, now_s=100.0)[0] == []
    assert known.phase == ORDERED


def test_what_users_do_with_waiting_jobs() -> None:
    watcher, _ = with_job(QUEUED)
    assert look(watcher, changed(WAITS, limit_s=120.0))[0] == [JobChanged("1", limit_us=120_000_000)]
    assert look(watcher)[0] == [JobCancelled("1")]
    watcher, _ = with_job(QUEUED)
    facts, wishes = look(watcher, changed(WAITS, held=False))
    assert (facts, wishes.hold) == ([JobCancelled("1")], [])
    assert "released elsewhere" in wishes.said[0]
    watcher, _ = with_job(QUEUED)
    facts, wishes = look(watcher, changed(WAITS, tasks=40))
    assert (facts, list(wishes.pass_on)) == ([JobCancelled("1")], ["1"])


def test_what_operators_do_with_runs() -> None:
    watcher, known = with_job(RUNS, changed(WAITS, state="RUNNING", held=False, mark=RUN_1, nodes=("n0",)))
    requeued = changed(WAITS, mark=RUN_1, restarts=1)
    assert look(watcher, requeued)[0] == [JobFinished("1", 1, "stopped"), JobHeld("1")]
    assert known.phase == PARKED
    facts, wishes = look(watcher, changed(requeued, held=False))
    assert (facts, wishes.note) == ([JobReleased("1")], {"1": "free"})  # which holds it again


def test_slurm_came_back_without_our_order() -> None:
    watcher, known = with_job(ORDERED)
    assert look(watcher, WAITS)[0] == []  # its mark is not that of the order
    assert (known.to_place, known.phase) == (True, ORDERED)
    watcher, known = with_job(ORDERED)
    watcher.back_s, known.touched_s = 50.0, 49.0
    assert look(watcher, changed(WAITS, mark=RUN_1))[0] == []
    assert known.to_place
    watcher, known = with_job(ORDERED)
    assert look(watcher, changed(WAITS, mark=RUN_1))[0] == [StartRefused("1", 1, "it is held", 1), JobHeld("1")]


def test_a_lost_node_is_told_after_the_end_of_its_runs() -> None:
    watcher, _ = with_job(RUNS, changed(WAITS, state="RUNNING", held=False, mark=RUN_1, nodes=("n0",)))
    facts, wishes = look(watcher, changed(WAITS, held=False, mark=RUN_1, restarts=1), n0="DOWN")
    assert facts == [JobFinished("1", 1, "stopped"), NodeDown(0)]
    assert wishes.hold == ["1"]


def test_nodes_with_jobs_of_slurms_own() -> None:
    watcher = fresh()
    foreign = ManagerJob("9", 9, "RUNNING", nodes=("n1",), partition="other")
    assert look(watcher, foreign)[0] == [NodeDrained(1)]
    assert look(watcher, foreign)[0] == []
    assert look(watcher)[0] == [NodeUp(1)]


def test_reservations_of_the_manager_are_windows() -> None:
    watcher = fresh()

    def seen(*windows: ManagerWindow) -> list[Event]:
        nodes = [ManagerNode(name, 28, states=("IDLE",)) for name in NAMES]
        return watcher.look(Picture(100.0, {}, nodes, windows))[0]

    first = ManagerWindow("maint", 1000.0, 5000.0, ("n0", "n1", "elsewhere"))
    told = WindowSet("slurm:maint", 995 * SECOND, 5000 * SECOND, ((0, 2),))
    assert seen(first, ManagerWindow("licences", 1000.0, 5000.0, ("elsewhere",))) == [told]
    assert seen(first) == []
    floating = msgspec.structs.replace(first, begin_s=1040.0, end_s=5040.0)
    assert seen(floating) == [], "it keeps its distance from now: what was told is on the safe side"
    longer = msgspec.structs.replace(first, end_s=6000.0)
    assert seen(longer) == [WindowSet("slurm:maint", 995 * SECOND, 6000 * SECOND, ((0, 2),))]
    assert seen(msgspec.structs.replace(longer, nodes=("n1",))) == [
        WindowSet("slurm:maint", 995 * SECOND, 6000 * SECOND, ((1, 1),))
    ]
    assert seen() == [WindowCleared("slurm:maint")]


def test_nodes_come_back_when_a_reservation_or_a_job_of_slurms_own_ends() -> None:
    watcher, upkeep = fresh(), ManagerWindow("upkeep", 50.0, 900.0, ("n0",))
    own = changed(WAITS, state="RUNNING", held=False, mark="", nodes=("n0",), cores_on={"n0": 3}, start_s=90.0)

    def seen(*states: str, jobs: tuple[ManagerJob, ...] = (), windows: tuple[ManagerWindow, ...] = ()) -> list[Event]:
        nodes = [ManagerNode("n0", 28, states=states), ManagerNode("n1", 28, states=("IDLE",))]
        facts = watcher.look(Picture(100.0, {one.name: one for one in jobs}, nodes, windows))[0]
        return [one for one in facts if not isinstance(one, WindowSet | WindowCleared)]

    assert seen("IDLE", "MAINT", "RESERVED", windows=(upkeep,)) == [NodeUsed(0, 28, 0, 900 * SECOND)]
    for now_s, said in ((901.0, []), (961.0, [NodeDrained(0)])):
        facts = watcher.look(Picture(now_s, {}, [ManagerNode("n0", 28, states=("IDLE", "MAINT")),
                                                 ManagerNode("n1", 28, states=("IDLE",))]))[0]  # fmt: skip
        assert [one for one in facts if not isinstance(one, WindowCleared)] == said, "Slurm lets go some seconds later"
    assert seen("IDLE", "MAINT", "RESERVED", windows=(upkeep,)) == [NodeUsed(0, 28, 0, 900 * SECOND)]
    assert seen("IDLE", "MAINT", "DRAIN", windows=(upkeep,)) == [NodeDrained(0)], "also when it is over"
    later = changed(own, limit_s=1000.0)
    assert seen("MIXED", "RESERVED", jobs=(later,), windows=(upkeep,)) == [NodeUsed(0, 28, 0, 1090 * SECOND)]
    assert seen("MIXED", jobs=(later,)) == [NodeUsed(0, 3, 0, 1090 * SECOND)]
    assert seen("MIXED", jobs=(later, changed(own, name="2", limit_s=9000.0))) == [NodeUsed(0, 6, 0, 9090 * SECOND)]
    assert seen("MIXED", jobs=(later, changed(own, name="2", limit_s=None))) == [NodeUsed(0, 6)], "no limit"
    assert seen("IDLE", "MAINT") == [NodeDrained(0)], "no reservation tells until when"


def test_a_watcher_knows_the_windows_of_a_restored_core() -> None:
    watcher, nodes = fresh(), [ManagerNode(name, 28, states=("IDLE",)) for name in NAMES]
    own, operators = Window(5, 9, 0, 1, "slurm:a"), Window(5, 9, 0, 1, "b")
    watcher.closings.recall({"slurm:a": (own,), "b": (operators,)})
    assert watcher.look(Picture(100.0, {}, nodes))[0] == [WindowCleared("slurm:a")]


def test_no_more_tasks_of_an_array_than_its_bound() -> None:
    watcher = fresh()
    tasks = [changed(WAITS, name=f"7_{at}", number=7, array="7", array_at_most=2) for at in range(4)]
    facts, _ = look(watcher, *tasks)
    assert [one.job.job_id for one in facts if isinstance(one, JobSubmitted)] == ["7_0", "7_1"]


def test_left_jobs_stay_left() -> None:
    watcher = fresh()
    odd = changed(WAITS, special=("asks for licences (x)",))
    facts, wishes = look(watcher, odd)
    assert (facts, wishes.pass_on) == ([], {"1": "asks for licences (x)"})
    assert look(watcher, odd)[1].pass_on == {}
    watcher = fresh()
    watcher.over = {"1"}
    assert look(watcher, WAITS)[1].pass_on == {"1": "has the name of an earlier job"}
    assert look(fresh(), changed(WAITS, mark=BACK))[0] == []


def test_a_job_that_was_given_back_and_still_waits_is_taken_again() -> None:
    watcher = fresh()
    look(watcher, WAITS)
    back = changed(WAITS, mark=BACK, held=False)
    facts, wishes = look(watcher, back)
    assert (facts, wishes.take_again) == ([], ["1"])
    assert look(watcher, WAITS)[1].take_again == []  # held for us again
    watcher.known["1"].park(NOTED)
    assert look(watcher, back) == ([JobReleased("1")], Wishes(take_again=["1"]))


@pytest.mark.parametrize(
    ("change", "terms"),
    [
        ({"held": True}, {}),  # others hold it
        ({"held": False, "special": ("asks for licences (x)",)}, {}),
        ({"held": False, "mates": "pair"}, {}),
        ({"held": False}, {"takes_again": False}),
    ],
)
def test_a_job_that_was_given_back_is_left_if_it_is_not_as_it_was(
    change: dict[str, Any], terms: dict[str, bool]
) -> None:
    watcher = fresh()
    look(watcher, WAITS)
    watcher.terms = watcher.terms._replace(**terms)
    facts, wishes = look(watcher, changed(WAITS, mark=BACK, **change))
    assert (facts, wishes.take_again) == ([JobCancelled("1")], [])


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (("IDLE",), "up"), (("MIXED",), "up"), (("IDLE", "DRAIN"), "drained"), (("DOWN", "NOT_RESPONDING"), "down"),
        (("IDLE", "NOT_RESPONDING"), "drained"), (("UNKNOWN",), "drained"), (("ALLOCATED", "MAINT"), "drained"),
    ],
)  # fmt: skip
def test_conditions(states: tuple[str, ...], said: str) -> None:
    assert condition(states) == said


def ordered(known: Known, whole_by: str, order: StartJob) -> tuple[int, str]:
    """The cores asked for, and what the job was made."""
    found = Discovered(
        Cluster((NodeGroup(2, 28),)), NAMES, (28, 28), Terms(("all",)), "24.11.5", whole_nodes_because="",
        whole_by=whole_by,
    )  # fmt: skip
    known.take_down(order, found)
    return known.cores, known.before.made


@pytest.mark.parametrize(
    ("whole_by", "alone"), [(BY_CORES, (28, "")), (BY_REQUEST, (2, "whole")), (NOT_WHOLE, (2, ""))]
)
def test_how_whole_nodes_are_asked_for(whole_by: str, alone: tuple[int, str]) -> None:
    """For a job of four tasks on two nodes; one that asked for them itself needs nothing more."""
    both, shared = (
        StartJob("1", 1, ((0, 2),), 60, exclusive=True),
        StartJob("1", 2, ((0, 1),), 60, exclusive=False, cores=4),
    )
    _, known = with_job(QUEUED)
    assert ordered(known, whole_by, both) == alone
    assert known.nodes == NAMES
    assert ordered(known, whole_by, shared) == (4, "shared" if alone[1] else "")  # taken back, and only then
    _, known = with_job(QUEUED, changed(WAITS, exclusive=True))
    assert ordered(known, whole_by, both) == (2, "")


def test_nodes_we_made_whole_are_not_its_owners_wish() -> None:
    mark = run_mark(1, Before(1, 0, 1, 4, "whole"))
    watcher, known = with_job(QUEUED)
    known.attempt = 1
    assert look(watcher, changed(WAITS, exclusive=True, mark=mark))[1].pass_on == {}
    assert look(watcher, changed(WAITS, exclusive=True))[1].pass_on == {"1": "was changed by its owner"}


def test_what_was_ordered_before_slurm_started_again_is_ordered_anew() -> None:
    """It is held with the mark of this very start: Slurm forgot the release, nobody holds it."""
    for started_s, phase in ((50.0, ORDERED), (0.0, PARKED)):
        watcher, known = with_job(ORDERED, changed(WAITS, mark=RUN_1))
        known.touched_s, watcher.back_s = 40.0, started_s
        look(watcher, changed(WAITS, mark=RUN_1))
        assert (known.phase, known.to_place) == (phase, phase == ORDERED)


def test_holds_of_others_are_told_from_ours_and_outlive_a_controller() -> None:
    """By Slurm's records: an administrator's, an owner's (job_submit.lua), and lifted ones, also after a restart."""
    for by in (BY_OWNER, BY_ADMINISTRATOR):
        watcher, known = with_job(QUEUED)
        facts, wishes = look(watcher, changed(WAITS, held_by=by))
        assert (facts, wishes.note, known.phase) == ([JobHeld("1")], {"1": "noted"}, PARKED)
        assert look(watcher, changed(WAITS, held_by=by, mark=f"{HELD}+noted"))[0] == []
        facts, wishes = look(watcher, changed(WAITS, mark=f"{HELD}+noted"))
        assert (facts, wishes.note, known.phase) == ([JobReleased("1")], {"1": "free"}, QUEUED)
    watcher, _ = with_job(QUEUED)  # a controller that was not there when it was held and released
    assert look(watcher, changed(WAITS, mark=f"{HELD}+noted"))[0] == [JobReleased("1")]
    watcher, _ = with_job(QUEUED)  # Slurm's reason is an older one than what job_submit.lua wrote
    assert look(watcher, changed(WAITS, held_by=BY_ADMINISTRATOR, mark=f"{HELD}+free"))[0] == [JobReleased("1")]
    watcher, known = with_job(ORDERED)  # held between two looks, while Slurm did not take our order
    known.to_place = True
    facts, _ = look(watcher, changed(WAITS, held_by=BY_ADMINISTRATOR))
    assert (facts, known.to_place) == ([StartRefused("1", 1, "it is held", 1), JobHeld("1")], False)


def test_what_others_hold_already_when_it_comes_is_told_as_held() -> None:
    """In the submission itself: between two events the core may decide."""
    terms = Terms(("all",), node_cpus=28)
    watcher, begun = Watcher(NAMES, terms, "Slurm", patience_s=20), changed(WAITS, begin_s=90.0)
    early, _ = look(watcher, changed(begun, held_by=BY_ADMINISTRATOR), now_s=80.0)
    assert not [one for one in early if isinstance(one, JobSubmitted)]
    (told,), wishes = look(watcher, changed(begun, held_by=BY_ADMINISTRATOR))
    assert isinstance(told, JobSubmitted)
    assert (told.job.held, wishes.note) == (True, {"1": NOTED})
    assert "job 1 is held by an administrator, and waits until that is lifted" in wishes.said
    assert look(watcher, changed(begun, held_by=BY_ADMINISTRATOR, mark=f"{HELD}+noted"))[0] == []
    assert look(watcher, changed(begun, mark=f"{HELD}+noted"))[0] == [JobReleased("1")]


def test_every_held_job_is_ours_but_those_that_others_held() -> None:
    terms = Terms(("all",), all_held=True, node_cpus=28, since_s=4.0)
    watcher = Watcher(NAMES, terms, "Slurm", patience_s=20)
    new, old = changed(WAITS, mark=""), changed(WAITS, name="2", number=2, mark="", submit_s=3.0)
    theirs = changed(WAITS, name="3", number=3, mark="", held_by=BY_ADMINISTRATOR)
    facts, wishes = look(watcher, new, old, theirs)
    assert [one.job.job_id for one in facts if isinstance(one, JobSubmitted)] == ["1"]
    assert wishes.note == {"1": "mark"}
    assert wishes.said == ["held by others and left held: 2, 3; `scontrol release` gives them to Slurm"]
    assert not look(watcher, changed(new, mark=HELD), old, theirs)[1].said


def test_dependencies_are_followed() -> None:
    done, failed = (changed(WAITS, name=n, number=int(n), held=False, mark="", state=state, start_s=10.0, end_s=20.0)
                    for n, state in (("7", "COMPLETED"), ("8", "FAILED")))  # fmt: skip
    runs = changed(done, name="9", number=9, state="RUNNING")
    tasks = [changed(done, name="20_1", number=21, array="20"), changed(runs, name="20_2", number=22, array="20")]
    twin = changed(runs, name="30", number=30, job_name="twin", user=5)
    others = Others([done, failed, runs, *tasks, twin])

    def stands(text: str, **own: object) -> str:
        return others.standing(changed(WAITS, name="99_1", number=99, array="99", dependency=text, **own), 100.0)

    assert stands("") == MET
    assert stands("afterok:7(unfulfilled)") == stands("afterany:7:8") == stands("afternotok:8(unfulfilled)") == MET
    assert stands("afterok:7(unfulfilled),afterany:9(unfulfilled)") == stands("afterok:9") == UNMET
    assert stands("afterok:8?afterok:7") == MET
    assert stands("afterok:8?afterok:9") == UNMET
    assert stands("afterok:8(failed)") == stands("afternotok:7") == stands("afterok:8?afternotok:7") == NEVER
    assert stands("afterok:8,afterok:9") == NEVER
    assert stands("after:9") == stands("after:9+1") == MET
    assert stands("after:9+2") == stands("after:6") == UNMET  # two minutes after 10; and Slurm has forgotten 6
    assert stands("aftercorr:20") == stands("afterok:20_1") == stands("afterok:21") == MET
    assert stands("afterok:20_*") == stands("afterok:20") == stands("aftercorr:20_2") == UNMET
    assert stands("singleton", job_name="twin", user=5) == UNMET
    assert stands("singleton", job_name="twin", user=6) == MET
    assert stands("afterburstbuffer:7") == stands("expand:7") == UNMET  # Slurm's own matter


def test_a_job_may_lose_dependencies_and_not_get_new_ones() -> None:
    job = changed(WAITS, dependency="afterok:7(unfulfilled),singleton")
    watcher, _ = with_job(QUEUED, job)
    assert look(watcher, changed(job, dependency="singleton(unfulfilled)"))[0] == []
    assert look(watcher, changed(job, dependency="afterok:8"))[1].pass_on == {"1": "depends on others now (afterok:8)"}
