"""AccaSim's EASY with first fit on an SWF file; run by the Python that has AccaSim.

    python accasim_run.py JOBS.swf NODES FOLDER

AccaSim 1.1.3 (2021) imports `collections.Mapping`, which Python 3.10 removed: it is put back here and nothing else.
"""

import collections
import collections.abc
import json
import sys
from pathlib import Path

collections.Mapping = collections.abc.Mapping

from accasim.base.allocator_class import FirstFit  # noqa: E402
from accasim.base.scheduler_class import EASYBackfilling  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402

folder = Path(sys.argv[3])
machine = {
    "groups": {"node": {"core": 1}}, "resources": {"node": int(sys.argv[2])},
    "equivalence": {"processor": {"core": 1}}, "start_time": 0,
}  # fmt: skip
(folder / "machine.json").write_text(json.dumps(machine))
Simulator(
    sys.argv[1], str(folder / "machine.json"), EASYBackfilling(FirstFit()), RESULTS_FOLDER_PATH=str(folder),
    show_statistics=False, statistics_output=False,
).start_simulation()  # fmt: skip
