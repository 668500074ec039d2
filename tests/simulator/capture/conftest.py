from __future__ import annotations

import sys
from pathlib import Path

# The tests of this folder share `frame_factory`; with importlib mode nothing puts it on the path.
sys.path.insert(0, str(Path(__file__).parent))
