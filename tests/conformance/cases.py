"""Small schedules that each catch one known bug of a published simulator. Data only; times in seconds.

`jobs` are in file order, `starts` too (None: rejected). `bug` names the class in mutants.py that makes the mistake and
`wrong` the start times it gives; test_reference_bites.py checks both against the textbook reference.

Every job can be a line of a Standard Workload Format trace: a request of 0 does not occur, a run time of 0 does.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.reference.textbook import Job

Starts = tuple[int | None, ...]


@dataclass(frozen=True)
class Case:
    name: str
    nodes: int
    jobs: tuple[Job, ...]
    order: str
    backfill: str | int
    backfill_order: str | None
    kill: bool
    starts: Starts
    why: str
    bug: str = ""
    wrong: Starts = ()


def _jobs(*rows: tuple[int, int, int, int]) -> tuple[Job, ...]:
    """(submit, run, limit, size), numbered from 1."""
    return tuple(Job(k, *row) for k, row in enumerate(rows, 1))


def _case(
    name: str,
    jobs: tuple[Job, ...],
    starts: Starts,
    why: str,
    bug: str,
    wrong: Starts,
    *,
    nodes: int = 10,
    order: str = "fcfs",
    backfill: str | int = "easy",
    backfill_order: str | None = None,
    kill: bool = True,
) -> Case:
    return Case(name, nodes, jobs, order, backfill, backfill_order, kill, starts, why, bug, wrong)


# Unless said otherwise: 10 nodes, A holds 6 of them until 100 by request, the head H wants 8, so the shadow is 100 and
# extra is 10 - 8 = 2.
CASES: tuple[Case, ...] = (
    # a. First fit starts C at 2 and H waits for C's end at 1002.
    _case(
        "head_not_delayed",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 1000, 1000, 3)),
        (0, 100, 160),
        "C fits now, but runs past the shadow on 3 nodes where only 2 are extra, so it would delay the head.",
        "HeadDelayed",
        (0, 1002, 2),
    ),
    # b. By real ends the shadow is 50: C (ends at 82) is refused, H starts at 50 and C at 110.
    _case(
        "shadow_by_requested_times",
        _jobs((0, 50, 100, 6), (1, 60, 60, 8), (2, 80, 80, 4)),
        (0, 82, 2),
        "The shadow is A's requested end 100, not its real end 50, which nobody can know; C ends at 82 and may start.",
        "ShadowByActual",
        (0, 50, 110),
    ),
    # b. By its real run time C would end at 52 and is started at 2 (H is then not delayed, by luck).
    _case(
        "candidate_by_requested_time",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 50, 200, 4)),
        (0, 100, 160),
        "C asks for 200 s, past the shadow at 100, and that it really runs 50 s cannot be known.",
        "CandidateByActual",
        (0, 100, 2),
    ),
    # c. Without the extra-nodes rule C waits for 100. (The example of the contract.)
    _case(
        "extra_nodes",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 1000, 1000, 2)),
        (0, 100, 2),
        "C runs far past the shadow, but on the 2 nodes the head does not need.",
        "NoExtra",
        (0, 100, 100),
    ),
    # d. A (until 100) before B (until 50) in start order makes the shadow 100; D (ends at 82) starts at 2, H at 82.
    _case(
        "shadow_from_sorted_ends",
        _jobs((0, 100, 100, 4), (0, 50, 50, 4), (1, 60, 60, 6), (2, 80, 80, 2)),
        (0, 0, 50, 100),
        "B ends before A though it started after it, so 6 nodes are free at 50, none extra, and D must wait.",
        "UnsortedEnds",
        (0, 0, 82, 2),
    ),
    # e. H starts at its first shadow, 100.
    _case(
        "head_starts_on_early_end",
        _jobs((0, 30, 100, 10), (1, 10, 10, 10)),
        (0, 30),
        "A ends 70 s early and the head starts at once, not at the shadow it was first given.",
        "HeadWaitsForPromise",
        (0, 100),
    ),
    # f. Counting only A (the first of the two to release) extra is 0 and D waits for 100.
    _case(
        "extra_counts_all_ends_at_the_shadow",
        _jobs((0, 100, 100, 4), (0, 100, 100, 4), (1, 50, 50, 6), (2, 1000, 1000, 2)),
        (0, 0, 100, 2),
        "A and B both end at 100; A's nodes are enough for the head, and B's count for extra as well.",
        "ExtraWithoutTies",
        (0, 0, 100, 100),
    ),
    # g. With < instead of <= C waits for H's end at 160.
    _case(
        "shadow_is_inclusive",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 98, 98, 4)),
        (0, 100, 2),
        "C would end exactly at the shadow (2 + 98 = 100), and completions come before the pass, so it delays nobody.",
        "Exclusive",
        (0, 100, 160),
    ),
    # h. Both C and D start at 2 on the same 2 extra nodes and H waits for 1002.
    _case(
        "extra_is_used_up",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 1000, 1000, 2), (2, 1000, 1000, 2)),
        (0, 100, 2, 160),
        "C runs past the shadow and takes the 2 extra nodes, so within the same pass none are left for D.",
        "ExtraNotReduced",
        (0, 1002, 2, 2),
    ),
    # i. With the submission (and a pass) first, A still seems to run until 100: C starts at 10 and H waits for 100.
    _case(
        "completions_before_submissions",
        _jobs((0, 10, 100, 6), (1, 50, 50, 8), (10, 90, 90, 4)),
        (0, 10, 60),
        "A ends at the instant C arrives; the end counts first, so the head starts and C finds 2 nodes.",
        "SubmissionsFirst",
        (0, 100, 10),
    ),
    # j. Without a second pass B waits for the next event, C's arrival at 7.
    _case(
        "run_time_zero_second_pass",
        _jobs((0, 0, 50, 10), (0, 20, 20, 10), (7, 5, 5, 10)),
        (0, 0, 20),
        "A ends at its start instant and a second pass at the same instant starts B.",
        "NoSecondPass",
        (0, 7, 27),
    ),
    # j. Rounded up to one second, A holds the machine until 1.
    _case(
        "run_time_zero_is_zero",
        _jobs((0, 0, 50, 10), (0, 20, 20, 10)),
        (0, 0),
        "A run time of 0 is not rounded up.",
        "ZeroRunsOneSecond",
        (0, 1),
    ),
    # j. If A's nodes came back within the pass, H would start at 0 and C at 30.
    _case(
        "run_time_zero_holds_its_nodes_for_the_pass",
        _jobs((0, 0, 50, 6), (0, 30, 30, 8), (0, 40, 40, 4)),
        (0, 40, 0),
        "In the pass that starts A nobody knows it ends at once: the shadow is 50, C (until 40) starts, H waits.",
        "ReleaseWithinPass",
        (0, 0, 30),
    ),
    # k. Not cut, A runs until 100.
    _case(
        "killed_at_the_limit",
        _jobs((0, 100, 40, 10), (1, 10, 10, 10)),
        (0, 40),
        "A is cut at its request of 40 s.",
        "NotKilled",
        (0, 100),
    ),
    # l. With A's expected end left at 10, in the past, D (20 + 1 > 10) is refused until H has run.
    _case(
        "overrun_is_expected_to_end_in_one_second",
        _jobs((0, 100, 10, 6), (1, 50, 50, 8), (20, 1, 1, 4)),
        (0, 100, 20),
        "At 20 A is past its request and expected to end at 21, so D, 1 s long, ends by the shadow.",
        "OverrunInThePast",
        (0, 100, 150),
        kill=False,
    ),
    # l. If A is expected to run on for long, C (until 25) is backfilled at 20.
    _case(
        "overrun_is_not_expected_to_last",
        _jobs((0, 100, 10, 6), (1, 50, 50, 8), (20, 5, 5, 4)),
        (0, 100, 150),
        "At 20 A is expected to end at 21, so C, 5 s long, would delay the head.",
        "OverrunForever",
        (0, 100, 20),
        kill=False,
    ),
    # m. With a pass per submission the long job, first in the file, starts at 0 and the short one at 100.
    _case(
        "one_pass_for_all_submissions",
        _jobs((0, 100, 100, 10), (0, 10, 10, 10)),
        (10, 0),
        "Both arrive in one instant and only then is there a pass, which takes the shortest first.",
        "PassPerSubmission",
        (0, 100),
        order="sjf",
    ),
    # m. With a pass after A's end alone, B still seems to run until 50: C (until 50) starts at 10 and H waits for 50.
    _case(
        "one_pass_for_all_completions",
        _jobs((0, 10, 10, 4), (0, 10, 50, 4), (1, 20, 20, 8), (1, 40, 40, 6)),
        (0, 0, 10, 30),
        "A and B end in one instant, B early, and the one pass after both starts the head.",
        "PassPerCompletion",
        (0, 0, 50, 10),
    ),
    # n. In queue order C starts at 2 and D at 52.
    _case(
        "backfill_order",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 50, 50, 4), (2, 20, 20, 4)),
        (0, 100, 22, 2),
        "The queue is first come first served, but backfilling tries the shortest first.",
        "BackfillOrderIgnored",
        (0, 100, 2, 52),
        backfill_order="sjf",
    ),
    # n. If R2 sorted the whole queue, the short D would be the head and start at 100, H at 110.
    _case(
        "backfill_order_does_not_choose_the_head",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 10, 10, 8)),
        (0, 100, 160),
        "The head comes from the queue order; only the candidates behind it are in the backfill order.",
        "BackfillOrderForAll",
        (0, 110, 100),
        backfill_order="sjf",
    ),
    # o. Planned again from nothing at 10, C (ahead in the queue) takes the machine at 10 and D is pushed from 10 to 30.
    _case(
        "conservative_keeps_the_first_reservation",
        _jobs((0, 10, 10, 1), (0, 10, 30, 1), (0, 20, 20, 3), (0, 20, 20, 2)),
        (0, 0, 30, 10),
        "At 0 D is promised 10 and C 30; when B ends early at 10, C may only use what D's reservation leaves.",
        "ReplanFromScratch",
        (0, 0, 10, 30),
        nodes=3,
        backfill="conservative",
    ),
    # o. If promises were fixed H would start at 100, its first reservation.
    _case(
        "conservative_starts_early_after_a_release",
        _jobs((0, 30, 100, 6), (1, 60, 60, 8), (2, 200, 200, 4)),
        (0, 30, 90),
        "A ends at 30 instead of 100, so H starts at 30 instead of 100; when it ends at 90, C instead of 160.",
        "NoEarlyStart",
        (0, 100, 160),
        backfill="conservative",
    ),
    # o. Nothing ends or arrives at 3: without a timer D starts when the others end, at 4.
    _case(
        "conservative_wakes_at_a_reservation",
        _jobs((2, 2, 1, 1), (2, 2, 2, 1), (2, 2, 2, 2), (2, 1, 4, 1)),
        (2, 2, 4, 3),
        "C is promised 3, when A should end, and the third node is kept for it; A overruns, so C must wait for B, too: "
        "until 4, with two nodes, and D may have the third.",
        "NoTimer",
        (2, 2, 4, 4),
        nodes=3,
        kill=False,
        backfill="conservative",
    ),
    # o. EASY protects only B: D starts at 2 and C, second in the queue, waits for 32.
    _case(
        "conservative_protects_everyone",
        _jobs((0, 10, 10, 6), (1, 10, 10, 8), (1, 10, 10, 9), (2, 30, 30, 2)),
        (0, 10, 20, 30),
        "D would not delay the head B, but C behind it.",
        "DepthOne",
        (0, 10, 32, 2),
        backfill="conservative",
    ),
    # The same with two reservations.
    _case(
        "depth_two_protects_two",
        _jobs((0, 10, 10, 6), (1, 10, 10, 8), (1, 10, 10, 9), (2, 30, 30, 2)),
        (0, 10, 20, 30),
        "With depth 2 both B and C hold a reservation.",
        "DepthOne",
        (0, 10, 32, 2),
        backfill=2,
    ),
    # With depth 0, C overtakes under EASY (starts at 2).
    _case(
        "none_is_strict",
        _jobs((0, 100, 100, 6), (1, 60, 60, 8), (2, 10, 10, 2)),
        (0, 100, 100),
        "Without backfilling the first job that does not fit stops the pass.",
        "DepthOne",
        (0, 100, 2),
        backfill="none",
    ),
    # Ordered by job number, job 3 starts at 0 and job 7 at 20.
    _case(
        "equal_submits_keep_file_order",
        (Job(7, 0, 10, 10, 10), Job(3, 0, 20, 20, 10)),
        (0, 10),
        "Lines are sorted by submit time, stable: job 7 stands before job 3 in the file.",
        "TiesByJobId",
        (20, 0),
    ),
    # Cut to 10 nodes, the first job holds the machine until 50.
    _case(
        "too_large_is_rejected",
        _jobs((0, 50, 50, 11), (0, 10, 10, 10)),
        (None, 0),
        "A job larger than the machine is rejected and does not block the queue.",
        "OversizeClipped",
        (0, 50),
    ),
)
