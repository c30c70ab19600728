"""The simulated world: event heap, machine, faults. Never imported by the decision core or a policy."""
