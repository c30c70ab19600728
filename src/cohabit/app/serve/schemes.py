"""The scheme of a domain that was changed in its site file between two starts of the controller.

A journal can be replayed only with the scheme it was begun with. Later ones are events in it, from `cohabit
coscheduling set` or from the site file. A changed file overrules what was set while the controller ran; an unchanged
one does not.
"""

from __future__ import annotations

from dataclasses import replace

from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Coupling
from cohabit.model.scheme import Scheme


def as_journalled(now: Coupling | None, kept: Coupling | None) -> Coupling | None:
    """Return this domain with the scheme its journal was begun with."""
    return now if now is None or kept is None else replace(now, scheme=kept.scheme)


def changed_in_file(core: SchedulerCore, file: Coupling | None) -> Scheme | None:
    """Return the scheme of the site file if it is another than at the last start."""
    about = core.state.coupled
    if about is None or file is None or file.scheme == about.file_scheme:
        return None
    return file.scheme
