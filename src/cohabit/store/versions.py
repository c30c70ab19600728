"""Tables that carry the number of their version and are brought to today's by numbered steps, applied in order.

A step that has been released is never changed; a new version is a new step at the end. All steps that are due run in
the caller's transaction, so tables are never left between two versions. A newer version is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from cohabit.model.errors import InputError

Step = Callable[[sa.Connection], None]


class Versioned(NamedTuple):
    """Tables with a version, which is kept in a table of keys and values; that may keep other things too."""

    what: str  # their name for users
    meta: sa.Table
    key: str
    lock: int  # any unique number: in PostgreSQL, a process that changes them waits for the previous one

    def migrate(self, connection: sa.Connection, steps: Sequence[Step], upto: int, where: str) -> int:
        """Bring them to this version; return the one they had."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self.lock)))
        found, meta = self.version(connection), self.meta
        if found > len(steps):
            what = f"the {self.what} has schema version {found}, this cohabit knows versions up to {len(steps)}"
            raise InputError(what, where, "use the newer cohabit that wrote it")
        if found == 0:
            meta.create(connection, checkfirst=True)
            connection.execute(sa.delete(meta).where(meta.c.key == self.key))
            connection.execute(sa.insert(meta).values(key=self.key, value=self._stored(0)))
        for step in steps[found:upto]:
            step(connection)
        if found < upto:
            connection.execute(sa.update(meta).where(meta.c.key == self.key).values(value=self._stored(upto)))
        return found

    def version(self, connection: sa.Connection) -> int:
        """Return the version of the tables; 0 if there are none yet."""
        if not sa.inspect(connection).has_table(self.meta.name):
            return 0
        found = connection.execute(sa.select(self.meta.c.value).where(self.meta.c.key == self.key)).scalar()
        return 0 if found is None else int(found)

    def _stored(self, number: int) -> int | str:
        return str(number) if isinstance(self.meta.c.value.type, sa.Text) else number
