"""A link that is open for a run, a study's cells or a measurement, and that `ivsim doctor` finds when its owner is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ivsim.runs.directory import tag_of
from ivsim.testbed.registry import RunRecord
from simulator.links import Link, open_link


@contextmanager
def noted_link(record: RunRecord, name: str, vehicles: int, first: int = 1) -> Iterator[Link]:
    """Open the link of that name for so many vehicles from number `first` on; its namespaces are in the run's notes.

    Raises what `open_link` and the link's opening do.
    """
    link = open_link(name, tag_of(record.run_id), vehicles, first)
    # Noted before they are made: a kill in between leaves a note of nothing, not a thing without a note.
    for namespace in link.namespaces:
        record.namespace(namespace)
    with ExitStack() as stack:
        with record.marking():  # the router may outlive the run that it is opened in
            stack.enter_context(link)
        yield link
