"""One twin a checkpoint: who has the lease, who is refused, and when one is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from schemas.errors import Refusal
from twin import lease
from twin.checkpoint_files import LocalFiles
from twin.place import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A checkpoint that is there; leases are short."""
    monkeypatch.setattr(lease, "RENEW_S", 0.1)
    monkeypatch.setattr(lease, "LOST_S", 3.0)
    monkeypatch.setattr(lease, "LEASE_S", 4.0)
    monkeypatch.setattr(lease, "_SETTLED_S", 0.1)
    return Place(tmp_path)


def test_a_directory_of_this_machine_is_locked(place: Place) -> None:
    held = lease.take(LocalFiles(place), place)
    with pytest.raises(Refusal, match=f"checkpoint_dir {place}: another twin has it open"):
        lease.take(LocalFiles(place), place)
    held.close()
    held.close()
    lease.take(LocalFiles(place), place).close()


def test_a_lease_that_is_renewed_has_one_holder(place: Place) -> None:
    files = LocalFiles(place)
    held = lease.RenewedLease(files, place)
    with pytest.raises(Refusal, match=r"another twin has it open: .* process "):
        lease.RenewedLease(files, place)
    assert held.lost() is None
    held.close()
    assert files.read(lease.NAME) is None
    lease.RenewedLease(files, place).close()


def test_a_lease_of_one_that_was_killed_ends_by_itself(place: Place) -> None:
    files = LocalFiles(place)
    files.write(lease.NAME, b'{"holder": "dead"}')
    held = lease.RenewedLease(files, place)
    assert held.lost() is None
    held.close()


@pytest.mark.parametrize("body", [b'{"holder": "another"}', b"nonsense"])
def test_a_lease_that_another_took_is_lost(place: Place, body: bytes) -> None:
    files = LocalFiles(place)
    held = lease.RenewedLease(files, place)
    while held._thread.is_alive():  # it may have read its own name a moment before
        files.write(lease.NAME, body)
        held._thread.join(0.2)
    said = held.lost()
    assert said is not None
    assert "another twin has taken the checkpoint" in said
    held.close()
    assert files.read(lease.NAME) == body  # it is not ours to remove


def test_a_lease_that_cannot_be_renewed_is_lost_before_another_may_begin(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(place)
    held = lease.RenewedLease(files, place)

    def away(*_: object) -> None:
        raise OSError("no answer")

    monkeypatch.setattr(files, "write", away)
    held._closed.wait(lease.LOST_S + 0.1)
    assert held.lost() == "the checkpoint's lease could not be renewed for 3 s"
    held.close()


def test_a_holder_stops_before_another_may_begin() -> None:
    assert 2 * lease.RENEW_S < lease.LOST_S < lease.LEASE_S - lease.RENEW_S / 2


def test_whoever_stood_still_while_it_renewed_has_lost_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(place)
    held = lease.RenewedLease(files, place)
    write, slow = files.write, threading.Event()

    def late(name: str, body: bytes) -> None:
        slow.wait(lease.LOST_S + 0.2)
        write(name, body)

    monkeypatch.setattr(files, "write", late)
    held._thread.join(30)
    assert held.lost() == "the checkpoint's lease could not be renewed for 3 s"
    held.close()
