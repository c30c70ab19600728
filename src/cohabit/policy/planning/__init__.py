"""Plans of a short queue: what is known as arrays (`problem`), what a plan brings (`forecast`), better ones (`anneal`).

A plan is an order of the waiting jobs, for each of them one of its ways to run, and whether it takes idle or full nodes.
No clock and no randomness of its own: the same state gives the same plan.
"""
