"""Make `tests.reference` importable however pytest was started (there need not be a tests/__init__.py)."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
