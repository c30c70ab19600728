"""Do the tests of a module of the core notice that one of its rules is broken? About three rules each, one at a time.

    .venv/bin/python -m tests.core_mutations                             # all modules: about ten minutes
    .venv/bin/python -m tests.core_mutations kernels/easy mates/turn     # these

Unlike tests/mutations.py, which asks the whole short suite, this asks only the tests that are about the module, with
kernels as plain Python so that nothing is compiled. tests/tidy/test_mutations.py checks that every line is still there.
Every module has three lines or more, also the tables of constants (columns, kernels/bundles).
"""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutations import ROOT, SHORT

LOADED_FIRST = ("hypothesis.strategies", "msgspec", "numpy", "polars")  # once for all children
LONGEST_S = 120  # of processor time; a broken loop may never end, which counts as noticed


class Broken(NamedTuple):
    """One line of a module, and what becomes of it."""

    line: str
    becomes: str


class Module(NamedTuple):
    """A module of the core: the tests that are about it, and the lines that they must notice."""

    tests: tuple[str, ...]
    lines: tuple[Broken, ...]


def _module(tests: str, *lines: tuple[str, str]) -> Module:
    return Module(tuple(f"tests/{one}" for one in tests.split()), tuple(Broken(*one) for one in lines))


MODULES: dict[str, Module] = {
    "co_runs": _module(
        "core/test_co_runs.py",
        ("beside) if well else None", "beside) if True else None"),
        ("if alone_us < LEAST_ALONE_US or", "if False or"),
        ("if profile is not None and profile.owner == job.profile_owner else", "if profile is not None else"),
    ),
    "own_runs": _module(
        "core/test_own_runs.py",
        ("    if not policies.gates or not job.program or", "    if not job.program or"),
        ("variance += (off_s * (run_s - mean_s) - variance) / count", "variance += (off_s * off_s - variance) / count"),
        ('return f"{job.program}@{job.profile_owner} {job.processes}x{job.nodes}"', "return job.program"),
    ),
    "explain_windows": _module(
        "core/test_windows.py",
        ("    if window.begin_us > now_us:\n", "    if True:\n"),
        ('nodes = "node" if sum(count for _, count in ranges) == 1 else "nodes"', 'nodes = "nodes"'),
        ("if first_of([one], view.now_us, until_us)}", "if first_of([one], view.now_us, view.now_us)}"),
    ),
    "trust": _module(
        "property/test_trust.py",
        ("if self.share_with == SAME_ACCOUNT and job.account else job.user", "if job.account else job.user"),
        ("(self._of_row != own) | (own == TRUSTS_NONE)", "self._of_row != own"),
        ("            if job is not None:\n", "            if False:\n"),
    ),
    "windows": _module(
        "core/test_windows.py",
        ("    if state.windows.get(told.name) == parts:\n        return False\n", ""),
        ("if kind in here or first_of(windows, now_us, until_us) is None else ()\n", "\n"),
        ("    if not past or (state.depth == CONSERVATIVE and state.queue.meta[ROWS]):\n", "    if not past:\n"),
    ),
    "apply": _module(
        "core/test_steps.py core/test_corners.py",
        ("            or self.state.jobs[ATTEMPT, row] != attempt\n", ""),
        ("if status != WENT_WELL and not job.after_any:", "if False:"),
        ("QUEUED)) >= at_most", "QUEUED)) > at_most"),
        ("if row in state.held or state.waiting_for.get(row)", "if state.waiting_for.get(row)"),
    ),
    "checkpoint": _module(
        "core/test_checkpoint.py",
        ('    state.held = set(saved["held"])\n', ""),
        ('    core.arrivals = list(saved["arrivals"])\n', ""),
        ("    while end and not bits[end // 2 : end].any():", "    while end and not bits[end // 2 : end - 1].any():"),
    ),
    "columns": _module(
        "core/test_columns.py",
        ("usage=usage[0, :-1],", "usage=usage[0],"),
        ("usage_share=usage[1, :-1],", "usage_share=usage[0, :-1],"),
        ("eligible_us=jobs[ELIGIBLE],", "eligible_us=jobs[SUBMIT],"),
    ),
    "commit": _module(
        "core/test_parts.py core/test_shared_nodes.py core/test_steps.py",
        ("        free[first : first + count] = False\n", ""),
        ("    if state.jobs[STATE, action.row] != QUEUED:\n        return False\n", ""),
        ("attempt = state.attempts.get(job.job_id, 0) + 1", "attempt = 1"),
    ),
    "core": _module(
        "core/test_steps.py",
        ("due = due or bool(applier.arrivals)", "due = due"),
        ("if until > now_us}", "}"),
        ("        if wake_us != self.state.wake_us:\n", "        if True:\n"),
    ),
    "decide": _module(
        "core/test_steps.py core/test_machines.py core/test_parts.py",
        ("if depth == STRICT or aged:", "if aged:"),
        ("        if reserved < depth:\n", "        if reserved <= depth:\n"),
        ("instants += [window.end_us for window in view.kinds.windows]", "pass"),
    ),
    "descriptions": _module(
        "core/test_descriptions.py",
        ("job.exclusive, job.single_node, job.spread, limit_us)", "job.exclusive, job.spread, limit_us)"),
        ("        self._of_row[row] = UNKNOWN\n", "        pass\n"),
        ("if program is None or own == program:", "if program is None:"),
    ),
    "explain": _module(
        "core/test_parts.py core/test_steps.py",
        ("if before := before_the_queue(state, row, now_us):", "if before := ():"),
        ("        if free >= need:\n            return free, int",
         "        if free > need:\n            return free, int"),
        ("extra = int(at_shadow.sum() - counts.sum())", "extra = int(at_shadow.sum())"),
    ),
    "explain_sharing": _module(
        "core/test_shared_nodes.py core/test_explain_sharing.py",
        ("if view.job(other).user == user]", "]"),
        ("age_limit_us = view.age_limit_us()", "age_limit_us = 0"),
        ("(distance, int(ledger.first[index])) < (best[0]", "(-distance, int(ledger.first[index])) < (-best[0]"),
    ),
    "explain_promises": _module(
        "core/test_explain_promises.py",
        ("            timeline.add(start_us, start_us + length_us, -counts)\n", ""),
        ("policies.backfill.depth == STRICT or view.waited_us(first) >= view.age_limit_us()",
         "policies.backfill.depth == STRICT"),
        ("        left -= 1\n", ""),
    ),
    "explain_running": _module(
        "core/test_explain_running.py",
        ("    if not view.is_running(row):\n        return \"\"\n", ""),
        ("for other in state.ledger.rows_on(node)} - {row})", "for other in state.ledger.rows_on(node)})"),
        ("profile(job.program, job.processes, job.profile_owner)", 'profile(job.program, job.processes, "")'),
    ),
    "cycles": _module(
        "core/test_cycles.py",
        ("if self.between and not starts:", "if False:"),
        ("return not 0 < self._cycle.tests <= self._tested", "return True"),
        ("else -(-start_us // step) * step", "else start_us"),
        ("start_us <= self._view.now_us + self._cycle.window_us", "start_us >= 0"),
    ),
    "bounds": _module(
        "core/test_cycles.py",
        ("self.qos in (\"\", job.service)", "True"),
        ("return job.user if self.per == USER", "return 0 if self.per == USER"),
        ("if most and now + more > most:", "if most and now > most:"),
    ),
    "fairness": _module(
        "core/test_fairness.py",
        ("    if not state.fairness or state.jobs[USER, row] < 0:\n", "    if True:\n"),
        ("(means > state.fairness * mean) & ~_has_its_part(state, users)", "means > state.fairness * mean"),
        ("known[name][user] = KEPT * known[name][user] + value", "known[name][user] = value"),
    ),
    "gating": _module(
        "core/test_gating.py",
        ("if self._view.gauges[RELEASED] or known[ASKED] != _occasion(self._view):", "if self._view.gauges[RELEASED]:"),
        ("known[UNTIL] <= self._view.now_us:", "False:"),
        ("for name, about in memory.get(JOBS, {}).items() if view.waits(name)}",
         "for name, about in memory.get(JOBS, {}).items()}"),
    ),
    "guaranteeing": _module(
        "policy/test_guarantee.py",
        ("or state.jobs[ATTEMPT, row] != event.attempt:", ":"),
        ("now_us + max(event.back_off_us, 1)", "now_us"),
        ("            ledger.touched.setdefault(index, []).append(ledger.nodes_in_class(index))\n",
         "            pass\n"),
    ),
    "invariants": _module(
        "core/test_invariants.py",
        ('    assert not (idle & (owner >= 0)).any(), "a node is idle and busy"\n    assert (idle ==',
         "    assert (idle <="),
        ("assert (booked <= ledger.capacity[kind]).all()", "assert (booked <= ledger.capacity[kind]).any()"),
        ("    assert int(idle.sum()) == state.gauges[FREE]", "    assert int(idle.sum()) <= state.gauges[FREE]"),
    ),
    "kinds": _module(
        "core/test_machines.py core/test_spread_n_share.py",
        ("key=lambda k: (self.groups[k].memory_bytes,", "key=lambda k: (-self.groups[k].memory_bytes,"),
        ("return not group.partitions or not self._any_open", "return not group.partitions"),
        ("job.memory_bytes * per_node > group.memory_bytes", "job.memory_bytes > group.memory_bytes"),
    ),
    "known_programs": _module(
        "core/test_profile_owners.py",
        ("own = state.own_profiles.get((owner, program)) if owner else None", "own = None"),
        ("        _copy(state, fact.program, SHARED, fact.owner)\n", "        pass\n"),
        ("        state.own_profiles[owner, program] = {}\n", "        pass\n"),
    ),
    "crowding": _module(
        "core/test_succession.py",
        ("    state.crowded[node] = (condition, state.crowded[node][1])\n", "    pass\n"),
        ("        if not rows:\n", "        if True:\n"),
        ("state.jobs[NODES, row] = state.widened.pop", "_ = state.widened.pop"),
    ),
    "succession": _module(
        "core/test_succession.py",
        ("        return {row for rows in rows_on if len(rows) > 1 for row in rows}\n", "        return set()\n"),
        ("            found.update(rows)\n", "            pass\n"),
        ("    state.held = {row_of[row] for row in before.held}\n", ""),
        ("        if rows and not _fit(", "        if len(rows) > 1 and not _fit("),
        ("    _refuse_homeless(before, state)\n", ""),
    ),
    "leaving": _module(
        "core/test_steps.py core/test_profiles_and_trials.py",
        ("            state.set_idle(node, False)\n\n\ndef node_became", "            pass\n\n\ndef node_became"),
        ("            elif becomes == DOWN:\n", "            else:\n"),
        ("        state.set_idle(node, not on_it)\n", "        state.set_idle(node, True)\n"),
    ),
    "ledger": _module(
        "core/test_ledger.py property/test_ledger.py",
        ("= (self.free >= wanted).all(axis=0)", "= (self.free >= wanted)[:1].all(axis=0)"),
        ("if best is None or (load, -cores) < best[:2]:", "if best is None or (load, cores) < best[:2]:"),
        ("order = classes[np.lexsort((self.first[classes], self.occupied[classes]))]",
         "order = classes[np.argsort(self.first[classes])]"),
    ),
    "memory": _module(
        "core/test_memory.py",
        ("        return {key: draft_of(one) if", "        return memory or {key: draft_of(one) if"),
        ("        return [draft_of(one) if", "        return memory or [draft_of(one) if"),
        ("tuple(draft_of(one) for one in memory) if", "memory if"),
    ),
    "outlook": _module(
        "core/test_promises.py",
        ("np.where(self._ends <= instant_us, takes, 0)", "np.where(self._ends < instant_us, takes, 0)"),
        ("count[able].sum() - shut >= want.nodes", "count[able].sum() - shut > want.nodes"),
        ("begin_us = int(instants[enough[0]])", "begin_us = int(instants[enough[-1]])"),
    ),
    "promises": _module(
        "core/test_promises.py",
        (" and ends_us > one.latest_us)", " and False)"),
        ("if self._refused() or any(", "if any("),
        ("one.expected_us < min(one.latest_us, ends_us)", "one.expected_us < min(0, ends_us)"),
    ),
    "protocols": _module(
        "core/test_protocols.py",
        ("return np.where(np.isnan(found), np.inf, found) if", "return found if"),
        ("return self.order.changing and self.order.falling and self.alone",
         "return self.order.falling and self.alone"),
        ("(second is None or not second.changing or second.alone)", "(second is None or second.alone)"),
    ),
    "scan": _module(
        "property/test_scan.py",
        ("if aged or self.skips_none or not hopeless:", "if self.skips_none or not hopeless:"),
        ("self._too_long[number] = min(limit_us, int(self._too_long[number]))", "self._too_long[number] = EVERY_LIMIT"),
        ("first, size = first + size, min(2 * size, LONGEST_BATCH)", "first, size = first + 2 * size, 2 * size"),
    ),
    "scorer": _module(
        "core/test_scorer.py",
        ("_entry_of(order if policies.changing else None,", "_entry_of(order,"),
        ("fresh[index], failures)", "fresh[0], failures)"),
        ("            failures.append(error)\n", ""),
    ),
    "sharing": _module(
        "core/test_sharing.py core/test_spread_n_share.py "
        "core/test_shared_nodes.py::test_a_maintenance_window_closes_shared_nodes_in_time",
        ("if self.depth == STRICT or aged:", "if self.depth == STRICT:"),
        ("w.begin_us < until and view.now_us < w.end_us", "w.begin_us <= view.now_us < w.end_us"),
        ("if not rows or not state.kinds.groups[kind].ways or not len(nodes):", "if not rows:"),
    ),
    "short_reasons": _module(
        "core/test_short_reasons.py",
        ("    if row in state.held:\n", "    if False:\n"),
        ("            if first < place:\n", "            if first > place:\n"),
        ("        if need > idle:\n", "        if need > idle + 1:\n"),
    ),
    "state": _module(
        "core/test_state.py",
        ("        if self.is_idle(node) == idle:\n            return\n", ""),
        ("self.users.setdefault(user, len(self.users))", "self.users.setdefault(user, user)"),
        ("        if job_id not in self.rows and job_id not in self.open_arrays:\n", "        if True:\n"),
    ),
    "timeline": _module(
        "core/test_timeline.py",
        ("            ends_us = np.maximum(ends_us, now_us)\n", ""),
        ("bisect.bisect_left(self.times, end_us)", "bisect.bisect_right(self.times, end_us)"),
        ("    return limit_us or SECOND", "    return limit_us"),
    ),
    "together": _module(
        "core/test_pairs_online.py",
        ("if depth == STRICT or view.aged(np.array(group)).any():", "if depth == STRICT:"),
        ("        sum(column) <= most for *column,", "        max(column) <= most for *column,"),
        ("[-1 if len(group) == 1 else 0]", "[0]"),
    ),
    "view": _module(
        "core/test_view.py",
        ("if until > self.now_us]", "]"),
        ("                up = self.node_state[nodes] == 0\n", "                up = self.node_state[nodes] >= 0\n"),
        ("(-known[count].usable_scales, abs(count - processes), count)", "(abs(count - processes), count)"),
    ),
    # ---- kernels ----------------------------------------------------------------------------------------------------
    "kernels/bundles": _module(
        "core/kernels/test_bundles.py",
        ("FIRST_FIT, STRICT, EASY = -1, 0, 1", "FIRST_FIT, STRICT, EASY = 0, -1, 1"),
        ("        np.zeros((2, room)),\n", "        np.zeros((1, room)),\n"),
        ("        np.empty((3, room), np.int64),\n", "        np.empty((2, room), np.int64),\n"),
    ),
    "kernels/changing": _module(
        "core/kernels/test_changing.py",
        ("        if queue.jobs[NODES, head] > gauges[FREE]:\n            return int(head)\n",
         "        if queue.jobs[NODES, head] >= gauges[FREE]:\n            return int(head)\n"),
        ("count += (nodes <= free) & ((nodes <= extra) | (jobs[LIMIT, rows[place]] <= longest))",
         "count += nodes <= free"),
        ("    gauges[HEAD] = promised[rule.depth - 1] if reserved == rule.depth else -1\n    return STANDS if stands",
         "    gauges[HEAD] = -1\n    return STANDS if stands"),
        ("    while reserved < rule.depth and", "    while reserved < rule.depth - 1 and"),
    ),
    "kernels/conservative": _module(
        "core/kernels/test_conservative.py",
        ("    if start <= now or nodes > left:\n        return False\n",
         "    if start <= now:\n        return False\n"),
        ("    if jobs[PROMISED, row] == UNRESERVED:\n        jobs[PROMISED, row] = start\n",
         "    jobs[PROMISED, row] = start\n"),
        ("    if jobs[LIMIT, row] == 0:  # it ends", "    if False:  # it ends"),
        ("    return int(np.floor(min(", "    return int(np.ceil(min("),
    ),
    "kernels/depth": _module(
        "core/kernels/test_depth.py",
        ("and reserved < rule.depth", "and reserved <= rule.depth"),
        ("    return limit if limit > 0 else SECOND", "    return limit"),
        ("nodes <= left and (limit == 0 or fits_now(now, nodes, limit, slots))", "fits_now(now, nodes, limit, slots)"),
        ("        count += scoring.goes_before(last, rows[index], key, jobs)\n", "        count += 1\n"),
    ),
    "kernels/easy": _module(
        "core/kernels/test_easy.py",
        ("machine.gauges[EXTRA] -= queue.jobs[NODES, row]", "pass"),
        ("shadow = jobs[EXPECTED, row]\n", "shadow = jobs[EXPECTED, row] + 1\n"),
        ("            if total >= need and jobs[EXPECTED, row] > shadow:\n", "            if total >= need:\n"),
        ("= now + jobs[LIMIT, row] <= gauges[SHADOW] or nodes",
         "= now + jobs[LIMIT, row] < gauges[SHADOW] or nodes"),
    ),
    "kernels/fair_share": _module(
        "core/kernels/test_fair_share.py",
        ("* 2.0**age\n", "\n"),
        ("        users += used > 0.0\n", "        users += 1\n"),
        ("    if age > MOST_HALF_LIVES:\n", "    if age > 10 * MOST_HALF_LIVES:\n"),
    ),
    "kernels/ladder": _module(
        "core/kernels/test_ladder.py",
        ("if key[other] < key[row] or (key[other] == key[row] and seq[other] < seq[row]):",
         "if key[other] <= key[row]:"),
        ("keep = RUNG if at_end else RUNG // 2", "keep = RUNG // 2"),
        ("    info[SOONEST, rung] = min(info[SOONEST, rung], soonest)\n", "    info[SOONEST, rung] = soonest\n"),
        ("    if (nodes == info[MIN_NODES, rung] and", "    if (False and"),
    ),
    "kernels/moves": _module(
        "core/kernels/test_moves.py",
        ("    if depth == CONSERVATIVE:\n", "    if False:\n"),
        ("        if now > jobs[START, row] + jobs[LIMIT, row]:",
         "        if now >= jobs[START, row] + jobs[LIMIT, row]:"),
        ("    if gauges[AGE_LIMIT] > 0:\n        found: int = gauges[AGE_LIMIT]\n        return found\n", ""),
        ("        return rule.depth != CONSERVATIVE\n", "        return True\n"),
    ),
    "kernels/nodes": _module(
        "core/kernels/test_nodes.py",
        ("if last >= 0 and pool[RANGE_FIRST, last] + pool[RANGE_COUNT, last] == first:", "if False:"),
        ("        gauges[FIRST_WORD] = min(gauges[FIRST_WORD], first // 64)\n", ""),
        ("        count = min(64, nodes - word * 64)\n", "        count = 64\n"),
    ),
    "kernels/overrunning": _module(
        "core/kernels/test_overrunning.py",
        ("            if jobs[START, row] + jobs[LIMIT, row] <= now:\n",
         "            if jobs[START, row] + jobs[LIMIT, row] < now:\n"),
        ("        jobs[EXPECTED, row] = now + SECOND\n", "        jobs[EXPECTED, row] = now + 2 * SECOND\n"),
        ("        gauges[RELEASED] = 1  # the whole queue is looked at again\n", ""),
    ),
    "kernels/profile": _module(
        "core/kernels/test_profile.py",
        ("    _change(slots, place, column, last, stop, -nodes)\n",
         "    _change(slots, place, column, last, stop + 1, -nodes)\n"),
        ("                if times[index] >= goal:\n", "                if times[index] > goal:\n"),
        ("    if not forgotten and slots[USES, column] == 0:\n", "    if not forgotten:\n"),
        ("    holds = place == 0 and column == slots[NUMBER, 0] * BLOCK\n", "    holds = True\n"),
    ),
    "kernels/promises": _module(
        "core/kernels/test_promises.py",
        ("= jobs[STATE, row] == QUEUED and jobs[RESERVED, row] == slots[PROMISED_AT, place]",
         "= jobs[STATE, row] == QUEUED"),
        ("    while first(jobs, slots, gauges) <= now:\n", "    while first(jobs, slots, gauges) < now:\n"),
        ("    return soonest if soonest > now else now + SECOND", "    return soonest"),
    ),
    "kernels/schedule": _module(
        "core/kernels/test_schedule.py",
        ("    if rule.depth == CONSERVATIVE:\n", "    if rule.depth == CONSERVATIVE and not rule.changing:\n"),
        ("    if rule.changing:\n", "    if rule.changing and rule.depth <= EASY:\n"),
        ("pass_to_depth if rule.depth > EASY else", "pass_to_depth if rule.depth > EASY + 1 else"),
    ),
    "kernels/scoring": _module(
        "core/kernels/test_scoring.py",
        ("np.inf if np.isnan(fresh[index]) else fresh[index]", "fresh[index]"),
        ("    if count > 1:  # a single job needs no score\n", "    if True:\n"),
        ("(key[row] == key[other] and jobs[SEQ, row] < jobs[SEQ, other])", "(key[row] == key[other])"),
    ),
    "kernels/shortlist": _module(
        "core/kernels/test_shortlist.py",
        ("now > marks[UNTIL] or", "now >= marks[UNTIL] or"),
        ("            if best >= 0 and before(scores[best], rows[best], queue.keys[BOUND, row], row, seq):\n",
         "            if best >= 0:\n"),
        ("if marks[BOUNDED] > _cost_of_looseness(marks):", "if marks[BOUNDED] < _cost_of_looseness(marks):"),
        ("usage[1, -1] < bounds[WORTH] or", "False or"),
    ),
    "kernels/sorting": _module(
        "core/kernels/test_sorting.py",
        ("(score == other_score and seq[row] < seq[other])", "(score == other_score)"),
        ("bits = np.float64(score + 0.0)", "bits = np.float64(score)"),
        ("            if end - begin > 1:\n                _sort_by_merging",
         "            if end - begin > 999:\n                _sort_by_merging"),
    ),
    # ---- mates ------------------------------------------------------------------------------------------------------
    "mates/agreeing": _module(
        "core/mates/test_agreeing.py",
        ("            timeline.add(start_us, start_us + length_us, -counts)\n", "            pass\n"),
        ("view.usable(row), length_us, not_before_us)", "view.usable(row), length_us, now_us)"),
        ("if other != row]", "]"),
    ),
    "mates/coordinator": _module(
        "core/mates/test_coordinator.py",
        ("    if not vote.yes:\n", "    if False:\n"),
        ("    if not fits:\n", "    if False:\n"),
        ("starts[domain] = start_us + one.group.offset_us(domain) - first + theirs",
         "starts[domain] = start_us + theirs"),
    ),
    "mates/deadlock": _module(
        "core/mates/test_deadlock.py",
        ("wanting.nodes <= free.get(wanting.domain, 0):", "False:"),
        ("        if wanting.nodes <= room:", "        if True:"),
        ("if held.domain == wanting.domain and held.group != wanting.group}", "if held.group != wanting.group}"),
    ),
    "mates/desk": _module(
        "core/mates/test_together.py::test_mates_of_a_job_that_starts_alone_do_not_wait_for_it "
        "core/mates/test_together.py::test_a_job_may_hold_after_so_many_yields "
        "core/mates/test_together.py::test_a_mate_that_refused_is_not_asked_again_until_it_says_more "
        "core/mates/test_together.py::test_holds_are_released_every_twenty_minutes_and_not_before_ten",
        ("            self.tell(now_us, Withdrawn(job.group))\n\n    def finished",
         "            pass\n\n    def finished"),
        ("        job.yields += name not in about.repeats\n", ""),
        ("        self.about.forget_refusal(message.group)\n", ""),
        ("        if not known or standing.hold_or_yield", "        if True or standing.hold_or_yield"),
        ("            released = schemes.released(scheme, since, now_us)\n", "            pass\n"),
    ),
    "mates/explain": _module(
        "core/mates/test_together.py::test_why_says_what_the_mates_keep_a_job_waiting_for",
        ("    if job.yielded_us != NEVER:\n", "    if False:\n"),
        ("    if state.jobs[STATE, row] == HOLDING:\n", "    if False:\n"),
        ('"is not submitted yet"', '"could start"'),
    ),
    "mates/local": _module(
        "core/mates/test_schemes.py core/mates/test_agreeing.py "
        "core/mates/test_together.py::test_mates_that_cannot_be_are_refused "
        "core/mates/test_together.py::test_one_job_may_have_a_scheme_of_its_own",
        ("scores - np.abs(scores) * self.scheme.raise_per_yield * yields",
         "scores + np.abs(scores) * self.scheme.raise_per_yield * yields"),
        ("[self.jobs[name].yields if name in self.jobs else 0 for name in names]", "[1 for name in names]"),
        ("        return sorted(found, key=lambda one: one[1].group)", "        return found"),
        ("        if domain not in group.domains():\n", "        if False:\n"),
        ("return self.jobs[name].scheme or self.scheme if name in self.jobs else self.scheme", "return self.scheme"),
    ),
    "mates/member": _module(
        "core/mates/test_member.py core/mates/test_protocol.py",
        ("    if asked.terms != one.group.digest:\n", "    if False:\n"),
        ("    if latest_us > record.lease_end_us or turn.now_us > latest_us:\n", "    if False:\n"),
        ("    elif record.phase == RUNNING and now >= record.fuse_us:\n", "    elif False:\n"),
    ),
    "mates/protocol": _module(
        "core/mates/test_protocol.py",
        ("    if message.epoch < seen.epoch:\n", "    if False:\n"),
        ("if behind >= WINDOW or (behind >= 0 and below >> behind & 1):", "if behind >= WINDOW:"),
        ("    if state.groups[group].record.phase in (ENDED, GONE):\n", "    if True:\n"),
    ),
    "mates/schemes": _module(
        "core/mates/test_schemes.py",
        ("held_nodes + job_nodes <= scheme.most_held * all_nodes",
         "held_nodes + job_nodes < scheme.most_held * all_nodes"),
        ("now_us - since_us > scheme.least_hold_us]", "now_us - since_us >= scheme.least_hold_us]"),
        ("    first = rank * scheme.offset_us\n", "    first = 0\n"),
    ),
    "mates/standing": _module(
        "core/mates/test_standing.py",
        ("    return found if missing <= 0 else []\n", "    return holds\n"),
        ("row in state.held or state.jobs[STATE, row] not in (QUEUED, BLOCKED)", "row in state.held"),
        ("deadlock.HOLDING if one.holds else deadlock.QUEUED", "deadlock.HOLDING"),
    ),
    "mates/state": _module(
        "core/mates/test_turn.py",
        ("    state = MatesState(kept.domain, kept.epoch)\n", "    state = MatesState(kept.domain)\n"),
        ("if other != domain}", "}"),
        ("state.groups[name] = GroupState(group, record,", "state.groups[name] = GroupState(group, Record(),"),
    ),
    "mates/turn": _module(
        "core/mates/test_turn.py",
        ("wait_us = one.group.terms.retry_us << min(one.failures, MOST_DOUBLINGS)",
         "wait_us = one.group.terms.retry_us"),
        ("        return record.start_at_us + terms.late_us + 1\n", "        return FOREVER\n"),
        ("    if one.group.terms.when_dead == START_ALONE:\n        return FOREVER\n", ""),
    ),
}  # fmt: skip


def main() -> int:
    """All modules, or those named; status 1 if a line went unnoticed."""
    chosen = sys.argv[1:] or list(MODULES)
    missed = 0
    for name in LOADED_FIRST:
        importlib.import_module(name)
    pytest.main(["--version"])  # loads its plugins, too
    with tempfile.TemporaryDirectory(prefix="cohabit-mutations-") as name:
        copy = Path(name) / "copy"
        for part in ("src", "tests", "examples", "scenarios", "docs"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "out"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for module in chosen:
            for broken in MODULES[module].lines:
                began = time.monotonic()
                by = _noticed_by(module, broken, copy)
                missed += not by
                said = f"noticed by {by}" if by else f"MISSED: {broken.line.strip()!r} -> {broken.becomes.strip()!r}"
                sys.stdout.write(f"{module:22} {time.monotonic() - began:4.0f} s  {said}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{missed} missed\n")
    return int(missed > 0)


def source_of(module: str, root: Path = ROOT) -> Path:
    """The file of a module in the table."""
    return root / "src" / "cohabit" / "core" / f"{module}.py"


def _noticed_by(module: str, broken: Broken, copy: Path) -> str:
    """The first test that fails with one line broken; empty: none does."""
    file = source_of(module, copy)
    text = file.read_text()
    assert text.count(broken.line) == 1, f"{module} has {text.count(broken.line)} times {broken.line!r}"
    file.write_text(text.replace(broken.line, broken.becomes))
    try:
        said = _said_by_pytest(MODULES[module].tests, copy)
    finally:
        file.write_text(text)
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" ", 1)[1].rpartition("/")[2][:90] if failed else ""


def _said_by_pytest(tests: tuple[str, ...], copy: Path) -> str:
    """Run these tests in a child of this process, which has loaded pytest but nothing of the package."""
    output = copy / "output"
    child = os.fork()
    if not child:
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        os.chdir(copy)
        sys.dont_write_bytecode = False  # of the copy: the next child need not compile all the rest again
        own = {"", str(ROOT), str(ROOT / "src")}  # .venv may lie in ROOT and stays
        sys.path[:] = [str(copy / "src"), str(copy), *(one for one in sys.path if one not in own)]
        os.environ.update(PYTHONPATH=f"{copy / 'src'}{os.pathsep}{copy}", COHABIT_KERNELS="plain")
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S))
        with output.open("w") as stream:
            os.dup2(stream.fileno(), 1)
        os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", SHORT, "--tb=no", *tests]))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "FAILED its time limit"
    said = output.read_text()
    assert os.WEXITSTATUS(status) in (0, 1, 2), said
    return said


if __name__ == "__main__":
    sys.exit(main())
