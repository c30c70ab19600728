"""Plans of a short queue, behind placement/planned.py.

Modules: `problem` (what is known, as the arrays of `tables`), `forecast` over `nodes` (what a plan brings), `anneal`
(better ones), `plans` (seeds, the best plan, plain data), `record` (past error).

A plan is an order of the waiting jobs, for each of them one of its ways to run, and a rule: which nodes first,
and whether nodes are kept for it.
No clock and no randomness of its own: the same state gives the same plan.
"""
