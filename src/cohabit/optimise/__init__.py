"""The mathematics of sharing a cache, with no scheduler inside: dividing it, placing programs, grouping them.

Modules, from the law up: `law` (speed of programs at given sizes), `division` (the dynamic programme), `occupancy` (an
undivided cache), `tables` and `node` (one node, readable), `memo` and `annealing` (many nodes), `starts`,
`schemes` (the five of the Shepherd poster), `ways` and `clusters` (what hardware can enforce), `incremental` (jobs that
come and go), `exhaustive` (proven optima of small cases). No clock, no files and no randomness of its own.
"""
