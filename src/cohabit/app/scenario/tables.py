"""The tables of a scenario file as structs, key by key with their defaults. Their values are checked elsewhere."""

from __future__ import annotations

import msgspec


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a node, in [cluster] and [[cluster.group]]."""

    cores: int = 1
    memory_gb: float = 0.0
    ways: int = 0
    min_ways: int = 1
    closids: int = 0
    domains: int = 1
    bandwidth_gbs: dict[str, float] = {}


class GroupConfig(NodeConfig, frozen=True):
    """[[cluster.group]]: nodes of one type."""

    nodes: int
    partitions: list[str] = []
    name: str = "node"


class WindowConfig(msgspec.Struct, frozen=True):
    """[[cluster.maintenance]]: nodes "0-3,7" are closed between two instants of the trace's clock."""

    begin_s: float
    end_s: float
    nodes: str
    announced_s: float | None = None  # known from then on; None: always known
    name: str = ""


class ClusterConfig(NodeConfig, frozen=True):
    """[cluster]"""

    nodes: int = 0  # 0: as the trace's header says
    sharing: str | None = None  # "exclusive" switches every placement back to CE; None: as the policy says
    oversubscribe: bool | None = None  # more threads than cores on a node; None: as the placement says (pair: yes)
    on_node_loss: str = "requeue"
    group: list[GroupConfig] = []
    maintenance: list[WindowConfig] = []


class JobsConfig(msgspec.Struct, frozen=True):
    """[jobs]: a file, a trace, or a generator with its options."""

    file: str = ""
    trace: str = ""
    generator: str = ""
    jobs: int | None = None  # how many to generate; default 1000
    load: float | None = None
    mean_gap_s: float | None = None
    median_run_s: float | None = None
    sigma: float | None = None
    longest_run_s: int | None = None
    sizes: list[int] | None = None
    requests: str | None = None
    kind: str | None = None
    programs: dict[str, float] | None = None
    processes: list[int] | None = None
    alpha: float | None = None
    ratio: list[float] | None = None  # mix of all [programs]: scaling ratio from, to
    span_days: float | None = None  # eureka: from the first to the last submission
    from_s: float | None = None  # of a file or trace: only jobs submitted from this time on, on its own clock,
    until_s: float | None = None  # and before this time
    shift_s: float | None = None  # of a file or trace: delay of all submissions; negative: earlier


class PolicyConfig(msgspec.Struct, frozen=True):
    """[policy]: a bundle, varied key by key."""

    name: str = "ce-easy"
    order: str | None = None
    backfill: str | int | None = None
    backfill_order: str | None = None
    placement: str | None = None
    order_options: dict[str, float] = {}
    backfill_order_options: dict[str, float] = {}
    fair_share_half_life_h: float = 168.0
    bf_interval_s: float | None = None  # easy or a depth: jobs pass others in cycles, so often; 0 or None: always
    bf_window_s: float | None = None  # nothing is promised that begins later than this from now
    bf_resolution_s: float | None = None  # promised starts are rounded up to this
    bf_max_job_test: int | None = None  # a pass looks at so many jobs
    age_limit_s: float | None = None  # first-fit only: a job that has waited this long may not be overtaken any more
    age_limit_runs: float | None = None  # the same as a multiple of the mean run time so far
    alpha: float | None = None  # share of its solo speed a job must keep unless it says otherwise; spread: 0.9
    beta: float = 2.0  # spread: weight of occupied cache ways in the search for the idlest nodes
    scales: list[int] = msgspec.field(default_factory=lambda: [1, 2, 4, 8])  # scale factors to try; []: all that gain
    partition: str | None = None  # how the cache is divided; "none": not at all; None: the placement's default
    book_bandwidth: bool = True  # spread: whether bandwidth is booked
    moves: int = 0  # shepherd: running jobs that may change their L3 domain at each decision
    pairing: str | None = None  # pair: optimal, greedy, saving, intensity or consecutive; None: the bundle's, or greedy
    degradation: str = ""  # pair and joint: a matrix of pairwise degradations, CSV
    model: str = ""  # pair and joint: a trained model that predicts them from counters
    trust_model: bool = False  # use a model although it does no better on unseen families than simple baselines
    threshold_pct: float = 100.0  # pair: pairs that slow each other by more run one after the other
    explore: float = 0.05  # pair: with a model that learns, at most this share of the pairs is made to learn from
    group_size: int = 2  # pair: jobs on a node at once, 2 to 4
    window: int = 150  # pair: how many jobs at the front of the queue are paired
    refill: bool = False  # pair: a waiting job may join a running job after its partner has ended, if they fit together
    look_ahead: int = 6  # joint: among so many jobs at the front of the queue the next one is chosen
    objective: str = "turnaround"  # joint: what to minimise: turnaround, slowdown, makespan or node-hours
    unknown: str = "alone"  # joint: how programs without a profile run: alone, to be measured, or sharing by cores
    planned: bool = False  # joint: plan a short queue as a whole; act greedily where a plan is not surely better
    evaluations: int = 4000  # joint, planned: forecasts for one plan
    share_with: str = "anybody"  # whose jobs may share a node: those of anybody, of one account or of one user
    fairness: float = 0.0  # joint: no user's mean slowdown above this many times the mean of all; 0: no bound
    gate: str | None = None  # a gate that may delay a start: variability, paying or "none"; None: the bundle's
    variability: str = ""  # a gate: the trained model
    skip_threshold: int = 10  # gate variability: maximum delays of a job unless it says otherwise; 0: never
    delay_labels: list[str] = msgspec.field(
        default_factory=lambda: ["variation"]
    )  # a gate: the labels that cause a delay
    telemetry_nodes: str = "job"  # a gate: counters of the nodes the job would get, or of "all"
    cost_aware: bool = False  # gate variability: wait only where the expected loss exceeds the expected wait
    choose_nodes: bool = False  # a gate: look for calmer nodes before delaying
    longest_wait_s: float = 600.0  # gate paying: how long a job may be kept back; 0: never
    variation_price_s: float = 120.0  # gate paying: seconds of its nodes that it is worth if a run does not vary
    learn: bool = True  # spread and shepherd: measure unknown programs on their normal runs
    least_cores: int = 2  # learn: no scale is measured that uses fewer cores on a node,
    worst_loss: float = 0.05  # learn: nor one beyond a scale that loses more speed than this against scale 1


class LimitConfig(msgspec.Struct, frozen=True):
    """[[limit]]: what the site's resource manager lets run at once, whatever the policy; 0: not bounded."""

    per: str = "all"  # counted together: all jobs it is about, those of one user, or of one account
    partition: str = ""  # "": jobs of any partition
    qos: str = ""  # "": jobs of any quality of service
    jobs: int = 0
    cores: int = 0
    nodes: int = 0
    name: str = ""


class WorldConfig(msgspec.Struct, frozen=True):
    """[world]: the ground truth, never visible to policies."""

    kill: bool = True  # kill a run at its requested time
    contention: str = "share"  # how neighbours slow each other: share, occupancy or none
    q: float = 1.0  # pressure of one core on an undivided cache, in GB/s
    profile_noise: float = 0.0  # relative error of the scheduler's knowledge of programs
    move_s: float = 0.05  # work lost when a running job changes its L3 domain: its cache is cold
    progress_s: float = 0.0  # period of measuring and reporting the speed of jobs on shared nodes; 0: never
    progress_noise: float = 0.02  # relative error of each such measurement
    submit_latency_s: float = 0.0  # the manager's own: from a submission until the scheduler hears of it,
    start_latency_s: float = 0.0  # from its order until the job begins,
    end_latency_s: float = 0.0  # and from the end of a job until the scheduler hears of it
    phases: bool = False  # bandwidth and IPC vary while a program runs
    weather: str = "none"  # load of network and filesystem by others: none, calm, or noise (and a noise job)
    noise_place: str = ""  # with weather "noise": it is at a switch, storage or a node; "": everywhere
    canaries: bool = False  # with weather and a gate: a canary runs before every job and is charged to it


class FaultsConfig(msgspec.Struct, frozen=True):
    """[faults]"""

    node_mtbf_h: float = 0.0  # mean time between failures of one node; 0: nodes never fail
    node_repair_h: float = 4.0
    late_reports_s: float = 0.0  # mean delay with which a finished job is reported


class ProgramsConfig(msgspec.Struct, frozen=True):
    """[programs]: what jobs run, from a file, a catalogue or measured curves."""

    file: str = ""
    catalogue: str = ""
    curves: str = ""
    profiles: str = "known"  # or "none": the scheduler knows nothing of them and has to learn
    co_runs: str = ""  # a profile store: what runs beside others showed there is known from the start

    @property
    def given(self) -> bool:
        """Return whether any programs are named."""
        return bool(self.file or self.catalogue or self.curves)


class SchemeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a domain's scheme for mates elsewhere, in a scenario's [[domain]] and a site's [domain]."""

    scheme: str | None = None  # hold, yield or agree; None: the bundle's, or hold
    enabled: bool = True  # False: its jobs start as if they had no mates
    release_s: float = 1200.0  # period of releasing held nodes; 0: never
    min_hold_s: float = 600.0  # a younger hold is not released
    max_held: float = 1.0  # share of all nodes; a hold that would exceed it yields
    max_yields: int = 0  # after this many yields a job holds; 0: it always yields
    raise_per_yield: float = 0.0  # share of its score added per yield
    bounded_hold_s: float = 0.0  # hold only if the mates expect to be ready within this time; 0: always
    on_deadlock: str = "release"  # groups that wait for each other's nodes: release, report or ignore


class TroubleConfig(msgspec.Struct, frozen=True):
    """[[domain.trouble]]: something that goes wrong in a domain, in true time."""

    what: str  # cancel, refuse or dead
    at_s: float
    job: str = ""  # cancel: the job its owner cancels; refuse: the job whose next start its nodes refuse
    until_s: float | None = None  # dead: when its controller is back


class DomainConfig(SchemeConfig, frozen=True):
    """[[domain]]: one of several clusters with its own resource manager, and its scheme."""

    name: str
    cluster: ClusterConfig = ClusterConfig()
    jobs: JobsConfig = JobsConfig()
    policy: PolicyConfig = PolicyConfig()
    clock_offset_s: float = 0.0  # its clock minus true time
    trouble: list[TroubleConfig] = []


class StartWindowConfig(msgspec.Struct, frozen=True):
    """[[coupling.window]]: domain `second` starts from `least_s` to `most_s` after domain `first`."""

    first: str
    second: str
    least_s: float = 0.0
    most_s: float = 0.0


class CouplingConfig(msgspec.Struct, frozen=True):
    """[coupling]: which jobs are mates, on which terms, and the link between the domains."""

    pairing: str = "column"
    vicinity_s: float = 120.0
    proportion: float | None = None  # required by pairing "proportion"; with "vicinity" at most this share is kept
    latency_s: float = 0.0
    jitter_s: float = 0.0  # maximum additional delay, uniformly distributed
    loss: float = 0.0  # share of messages that are lost
    duplicate: float = 0.0  # share of messages that arrive twice
    when_dead: str = "start_alone"  # how to treat a mate that is no longer heard: start_alone, wait or fail
    dead_after_s: float | None = None  # time without a message while its mate waits; None: derived from the link
    lead_s: float | None = None  # time from the decision to start together to the start; None: derived
    lease_s: float | None = None  # time nodes stay reserved for a start and a job runs without a message; None: derived
    ask_s: float | None = None  # how often a mate is asked, and a job that yields tried again; None: derived
    retry_s: float | None = None  # wait after a failed attempt; None: derived
    overlap_s: float = 0.0  # minimum time mates must be seen running together; -1: for the whole run
    window: list[StartWindowConfig] = []


class Scenario(msgspec.Struct, frozen=True):
    """The whole file."""

    seed: int = 1
    cluster: ClusterConfig = ClusterConfig()
    programs: ProgramsConfig = ProgramsConfig()
    jobs: JobsConfig = JobsConfig()
    policy: PolicyConfig = PolicyConfig()
    world: WorldConfig = WorldConfig()
    faults: FaultsConfig = FaultsConfig()
    limit: list[LimitConfig] = []
    qos: dict[str, int] = {}  # priorities by the name of a quality of service, 0 to 100; others have 0
    domain: list[DomainConfig] = []
    coupling: CouplingConfig = CouplingConfig()
