"""Edmonds' blossom algorithm for a perfect matching of largest weight in a complete graph, compiled: O(n^3), exact.

The primal-dual form with all search trees grown at once (Galil, ACM Computing Surveys 18(1), 1986). Weights and duals
are whole numbers, so a tight edge is exactly tight. Ties are broken by the order of the vertices, never by chance. The
readable cover is `matching`; nothing else should call this module. No clock, no files, no randomness.

A vertex is 0..n-1; a blossom (an odd cycle shrunk to one vertex) has a number from n up. `end[x, y]` is the vertex
inside x of the tightest edge between x and y, so it names the edge together with `end[y, x]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cohabit.compiled import compiled, compiled_free

FREE, OUTER, INNER = -1, 0, 1  # not in a tree; at even, at odd distance from its root
NOTHING = -1
FAR = np.int64(2**62)


class Search(NamedTuple):
    """The state of the search, as flat arrays; the first index of most is a vertex or a blossom."""

    weight: np.ndarray  # even whole numbers, both halves
    dual: np.ndarray
    end: np.ndarray
    match: np.ndarray  # the vertex at the other end, of a vertex or a blossom
    top: np.ndarray  # the outermost blossom it is in; itself if in none; NOTHING for an unused number
    parent: np.ndarray  # for INNER: the vertex its tree came from
    label: np.ndarray
    slack: np.ndarray  # the OUTER vertex with the tightest edge to here
    best: np.ndarray  # and how far that edge is from tight
    child_of: np.ndarray  # [blossom, vertex]: the member that holds the vertex
    members: np.ndarray  # [blossom, place]: its cycle, beginning at the base
    size: np.ndarray
    queue: np.ndarray  # OUTER vertices not examined yet
    stack: np.ndarray
    seen: np.ndarray
    counts: np.ndarray  # queue head, queue tail, numbers in use, mark of the last search for a meeting point


HEAD, TAIL, USED, MARK = 0, 1, 2, 3


@compiled
def _gap(s, x, y):
    """Return how far the tightest edge between x and y is from tight."""
    u, v = s.end[x, y], s.end[y, x]
    return s.dual[u] + s.dual[v] - 2 * s.weight[u, v]


@compiled
def _find_slack(s, x):
    s.slack[x], s.best[x] = NOTHING, FAR
    for u in range(len(s.weight)):
        if s.top[u] != x and s.label[s.top[u]] == OUTER:
            gap = _gap(s, u, x)
            if gap < s.best[x]:
                s.slack[x], s.best[x] = u, gap


@compiled
def _put_in_queue(s, x):
    n = len(s.weight)
    for u in range(n):
        if u == x or (x >= n and s.child_of[x - n, u] != NOTHING):
            s.queue[s.counts[TAIL]] = u
            s.counts[TAIL] += 1


@compiled
def _set_top(s, x, blossom):
    n, depth = len(s.weight), 1
    s.stack[0, 0] = x
    while depth:
        depth -= 1
        y = s.stack[depth, 0]
        s.top[y] = blossom
        if y >= n:
            for place in range(s.size[y - n]):
                s.stack[depth, 0] = s.members[y - n, place]
                depth += 1


@compiled
def _turn(s, blossom, child):
    """Place of the child on the cycle, made even by turning the cycle round."""
    cycle, size = s.members[blossom], s.size[blossom]
    place = 0
    while cycle[place] != child:
        place += 1
    if place % 2 == 0:
        return place
    low, high = 1, size - 1
    while low < high:
        cycle[low], cycle[high] = cycle[high], cycle[low]
        low, high = low + 1, high - 1
    return size - place


@compiled
def _join(s, x, y):
    """Match x with y along their tightest edge, and the inside of every blossom accordingly."""
    n, depth = len(s.weight), 1
    s.stack[0, 0], s.stack[0, 1] = x, y
    while depth:
        depth -= 1
        x, y = s.stack[depth, 0], s.stack[depth, 1]
        s.match[x] = s.end[y, x]
        if x < n:
            continue
        blossom = x - n
        child = s.child_of[blossom, s.end[x, y]]
        place = _turn(s, blossom, child)
        cycle, size = s.members[blossom], s.size[blossom]
        for other in range(place):
            s.stack[depth, 0], s.stack[depth, 1] = cycle[other], cycle[other ^ 1]
            depth += 1
        s.stack[depth, 0], s.stack[depth, 1] = child, y
        depth += 1
        turned = np.empty(size, cycle.dtype)
        for other in range(size):
            turned[other] = cycle[(other + place) % size]
        for other in range(size):
            cycle[other] = turned[other]


@compiled
def _augment(s, x, y):
    """Turn the path from x to its root inside out."""
    while True:
        old = s.match[x]
        before = s.top[old] if old != NOTHING else NOTHING
        _join(s, x, y)
        if before == NOTHING:
            return
        above = s.top[s.parent[before]]
        _join(s, before, above)
        x, y = above, before


@compiled
def _meeting(s, x, y):
    """Return where the paths of x and y to their roots meet, NOTHING if their roots differ."""
    s.counts[MARK] += 1
    mark = s.counts[MARK]
    while x != NOTHING or y != NOTHING:
        if x != NOTHING:
            if s.seen[x] == mark:
                return x
            s.seen[x] = mark
            x = s.top[s.match[x]] if s.match[x] != NOTHING else NOTHING
            if x != NOTHING:
                x = s.top[s.parent[x]]
        x, y = y, x
    return NOTHING


@compiled
def _shrink(s, x, meeting, y):
    """Shrink the odd cycle through x, y and the meeting point of their paths to one vertex."""
    n = len(s.weight)
    new = n
    while new < s.counts[USED] and s.top[new] != NOTHING:
        new += 1
    if new == s.counts[USED]:
        s.counts[USED] += 1
    used, blossom = s.counts[USED], new - n
    s.dual[new], s.label[new], s.match[new] = 0, OUTER, s.match[meeting]
    cycle, count = s.members[blossom], 1
    cycle[0] = meeting
    for side in range(2):
        begin, z = count, x if side == 0 else y
        while z != meeting:
            cycle[count] = z
            z = s.top[s.match[z]]
            cycle[count + 1] = z
            _put_in_queue(s, z)
            count += 2
            z = s.top[s.parent[z]]
        if side == 0:
            low, high = begin, count - 1
            while low < high:
                cycle[low], cycle[high] = cycle[high], cycle[low]
                low, high = low + 1, high - 1
    s.size[blossom] = count
    _set_top(s, new, new)
    for z in range(used):
        s.end[new, z] = s.end[z, new] = NOTHING
    s.child_of[blossom, :] = NOTHING
    for place in range(count):
        child = cycle[place]
        for z in range(used):
            if s.top[z] == NOTHING or s.top[z] == new:
                continue
            if s.end[new, z] == NOTHING or _gap(s, child, z) < _gap(s, new, z):
                s.end[new, z], s.end[z, new] = s.end[child, z], s.end[z, child]
        for z in range(n):
            if z == child or (child >= n and s.child_of[child - n, z] != NOTHING):
                s.child_of[blossom, z] = child
    _find_slack(s, new)


@compiled
def _expand(s, whole):
    """Take an INNER blossom of dual zero apart: the even part of its cycle stays in the tree."""
    blossom = whole - len(s.weight)
    cycle, size = s.members[blossom], s.size[blossom]
    for place in range(size):
        _set_top(s, cycle[place], cycle[place])
    entry = s.child_of[blossom, s.end[whole, s.parent[whole]]]
    reach = _turn(s, blossom, entry)
    for place in range(0, reach, 2):
        inner, outer = cycle[place], cycle[place + 1]
        s.parent[inner] = s.end[outer, inner]
        s.label[inner], s.label[outer] = INNER, OUTER
        s.slack[inner], s.best[inner] = NOTHING, FAR
        _find_slack(s, outer)
        _put_in_queue(s, outer)
    s.label[entry], s.parent[entry] = INNER, s.parent[whole]
    for place in range(reach + 1, size):
        s.label[cycle[place]] = FREE
        _find_slack(s, cycle[place])
    s.top[whole] = NOTHING


@compiled
def _use_edge(s, u, v):
    """Use a tight edge from an OUTER vertex u: grow the tree, shrink a cycle, or augment (True)."""
    x, y = s.top[u], s.top[v]
    if s.label[y] == FREE:
        s.parent[y], s.label[y] = u, INNER
        mate = s.top[s.match[y]]
        s.slack[y] = s.slack[mate] = NOTHING
        s.best[y] = s.best[mate] = FAR
        s.label[mate] = OUTER
        _put_in_queue(s, mate)
    elif s.label[y] == OUTER:
        meeting = _meeting(s, x, y)
        if meeting == NOTHING:
            _augment(s, x, y)
            _augment(s, y, x)
            return True
        _shrink(s, x, meeting, y)
    return False


@compiled
def _look_around(s):
    """Follow tight edges from all OUTER vertices in the queue; True after an augmentation."""
    n = len(s.weight)
    while s.counts[HEAD] < s.counts[TAIL]:
        u = s.queue[s.counts[HEAD]]
        s.counts[HEAD] += 1
        if s.label[s.top[u]] == INNER:
            continue
        for v in range(n):
            gap, other = s.dual[u] + s.dual[v] - 2 * s.weight[u, v], s.top[v]
            if other == s.top[u]:
                continue
            if gap == 0:
                if _use_edge(s, u, v):
                    return True
            elif gap < s.best[other]:
                s.slack[other], s.best[other] = u, gap
    s.counts[HEAD] = s.counts[TAIL] = 0
    return False


@compiled
def _change_duals(s):
    """Lower and raise the duals as far as all edges allow, which makes another edge tight or empties a blossom."""
    n, used, step = len(s.weight), s.counts[USED], FAR
    for x in range(used):
        if s.top[x] != x:
            continue
        if x >= n and s.label[x] == INNER:
            step = min(step, s.dual[x] // 2)
        if s.label[x] == FREE:
            step = min(step, s.best[x])
        elif s.label[x] == OUTER:
            step = min(step, s.best[x] // 2)
    for u in range(n):
        label = s.label[s.top[u]]
        if label == OUTER:
            s.dual[u] -= step
        elif label == INNER:
            s.dual[u] += step
    for x in range(used):
        if s.top[x] != x:
            continue
        if s.slack[x] != NOTHING and s.label[x] != INNER:
            s.best[x] -= step if s.label[x] == FREE else 2 * step
        if x >= n and s.label[x] == OUTER:
            s.dual[x] += 2 * step
        elif x >= n and s.label[x] == INNER:
            s.dual[x] -= 2 * step


@compiled
def _one_stage(s):
    """Grow trees from all single vertices until one more pair is matched; False if there were none."""
    n = len(s.weight)
    s.counts[HEAD] = s.counts[TAIL] = 0
    for x in range(s.counts[USED]):
        s.label[x], s.slack[x], s.best[x] = FREE, NOTHING, FAR
    for x in range(s.counts[USED]):
        if s.top[x] == x and s.match[x] == NOTHING:
            s.parent[x], s.label[x] = NOTHING, OUTER
            _put_in_queue(s, x)
    if s.counts[TAIL] == 0:
        return False
    while True:
        if _look_around(s):
            return True
        _change_duals(s)
        for x in range(s.counts[USED]):
            near = s.slack[x]
            if s.top[x] == x and near != NOTHING and s.top[near] != x and s.best[x] == 0:
                if _use_edge(s, near, s.end[x, near]):
                    return True
        for x in range(n, s.counts[USED]):
            if s.top[x] == x and s.label[x] == INNER and s.dual[x] == 0:
                _expand(s, x)


@compiled
def _begin(s):
    """Set the lowest duals that give every vertex a tight edge, and match tight pairs at once; this saves stages."""
    n = len(s.weight)
    for u in range(n):
        most = np.int64(0)
        for v in range(n):
            if v != u:
                most = max(most, s.weight[u, v])
        s.dual[u] = most
    for u in range(n):
        if s.match[u] != NOTHING:
            continue
        gap, near = FAR, NOTHING
        for v in range(n):
            if v != u:
                between = s.dual[u] + s.dual[v] - 2 * s.weight[u, v]
                if between < gap or (between == gap and s.match[near] != NOTHING and s.match[v] == NOTHING):
                    gap, near = between, v
        s.dual[u] -= gap
        if s.match[near] == NOTHING:
            s.match[u], s.match[near] = near, u


@compiled_free
def heaviest_perfect_matching(weight):
    """The partner of every vertex; `weight` is symmetric, whole, not negative, below 2^45, and of even size above 0."""
    n = len(weight)
    most = n + n // 2 + 1
    s = Search(
        2 * weight,
        np.zeros(most, np.int64),
        np.full((most, most), NOTHING, np.int32),
        np.full(most, NOTHING),
        np.full(most, NOTHING),
        np.full(most, NOTHING),
        np.full(most, FREE),
        np.full(most, NOTHING),
        np.full(most, FAR),
        np.full((n // 2 + 1, n), NOTHING, np.int32),
        np.full((n // 2 + 1, n), NOTHING, np.int32),
        np.zeros(n // 2 + 1, np.int64),
        np.zeros(4 * n + 4, np.int64),
        np.zeros((2 * most, 2), np.int64),
        np.zeros(most, np.int64),
        np.zeros(4, np.int64),
    )
    s.counts[USED] = n
    for u in range(n):
        s.top[u] = u
        for v in range(n):
            s.end[u, v] = u
    _begin(s)
    while _one_stage(s):
        pass
    return s.match[:n].copy()
