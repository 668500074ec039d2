"""Run the testbed or a study, and read what was found, from Python as from the command line.

    from ivsim import Testbed, load_results, run

    results = run(protocol="mqtt", mode="qos1", vehicles=5, duration_s=10)
    results.metrics["delivery_ratio"]

See docs/library.md. Names are loaded when they are first used: `import ivsim` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivsim.library.results import Results, load_results
    from ivsim.library.runs import RunFailed, run
    from ivsim.library.studies import StudyResults, StudyStopped, load_study, resume_study, run_study
    from ivsim.option_rules import run_options
    from ivsim.options import RunOptions
    from ivsim.runs.testbed import Testbed
    from schemas.errors import Refusal

_WHERE = {
    "Refusal": "schemas.errors",
    "Results": "ivsim.library.results",
    "RunFailed": "ivsim.library.runs",
    "RunOptions": "ivsim.options",
    "Testbed": "ivsim.runs.testbed",
    "StudyResults": "ivsim.library.studies",
    "StudyStopped": "ivsim.library.studies",
    "load_results": "ivsim.library.results",
    "load_study": "ivsim.library.studies",
    "resume_study": "ivsim.library.studies",
    "run": "ivsim.library.runs",
    "run_options": "ivsim.option_rules",
    "run_study": "ivsim.library.studies",
}
__all__ = [
    "Refusal",
    "Results",
    "RunFailed",
    "RunOptions",
    "StudyResults",
    "StudyStopped",
    "Testbed",
    "load_results",
    "load_study",
    "resume_study",
    "run",
    "run_options",
    "run_study",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'ivsim' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
