"""ping of macOS, the BSDs and busybox: they count from 0 and do not say how long they took."""

from __future__ import annotations

import pytest

from schemas.errors import Refusal
from simulator.traces.importers import Options, import_trace

EACH_SECOND = Options(period_s=1)
HEAD = "PING 192.0.2.1 (192.0.2.1): 56 data bytes\n"
END = "\n--- 192.0.2.1 ping statistics ---\n%d packets transmitted, %d packets received, %s packet loss\n"


def put(tmp_path, text: str):
    path = tmp_path / "x"
    path.write_text(text, newline="")
    return path


def reply(sequence: int, word: str = "icmp_seq", time: str = "20.125", more: str = "") -> str:
    return f"64 bytes from 192.0.2.1: {word}={sequence} ttl=58 time={time} ms{more}\n"


@pytest.mark.parametrize("name", ["macos.txt", "busybox.txt"])
def test_the_time_between_probes_has_to_be_said(trials, name):
    with pytest.raises(Refusal, match=rf"{name}:\d+: this ping does not say how long it took: give --period"):
        import_trace(trials / "ping" / name)


def test_macos(trials):
    trace = import_trace(trials / "ping" / "macos.txt", options=EACH_SECOND)
    assert trace.rtt_ms.tolist() == [20.125, 23.125, 23.125, 29.125, 32.125, 35.125]
    assert trace.loss_ratio.tolist() == [0, 0, 1, 0, 0, 0]
    assert "6 probes every 1000.0 ms, 1 lost" in trace.header["policy"]


def test_busybox(trials):
    trace = import_trace(trials / "ping" / "busybox.txt", options=EACH_SECOND)
    assert trace.rtt_ms.tolist() == [120.147, 127.147, 134.147, 141.147]
    assert not trace.loss_ratio.any()


@pytest.mark.parametrize("word", ["icmp_seq", "seq"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_first_and_the_last_probe_may_be_lost(tmp_path, word, end):
    text = HEAD + "Request timeout for icmp_seq 0\n" + reply(1, word) + reply(2, word) + END % (4, 2, "50.0%")
    trace = import_trace(put(tmp_path, text.replace("\n", end)), options=EACH_SECOND)
    assert trace.loss_ratio.tolist() == [1, 0, 0, 1]


def test_a_period_of_less_than_a_step_gives_shares_of_lost_probes(tmp_path):
    text = HEAD + "".join(reply(k) for k in range(10) if k not in (1, 7, 8)) + END % (10, 7, "30.0%")
    trace = import_trace(put(tmp_path, text), options=Options(period_s=0.2))
    assert trace.loss_ratio.tolist() == [
        pytest.approx(1 - (1 - lost) ** 0.5, abs=1e-6) for lost in (0.2, 0.4)
    ]


def test_a_doubled_reply_is_one(tmp_path):
    text = HEAD + reply(0) + reply(0, more=" (DUP!)") + reply(1)
    text += "\n2 packets transmitted, 2 packets received, +1 duplicates, 0.0% packet loss\n"
    trace = import_trace(put(tmp_path, text), options=EACH_SECOND)
    assert "0 lost" in trace.header["policy"]
    assert "1 duplicates left out" in trace.header["policy"]


def test_ping6_of_macos(tmp_path):
    text = "PING6(56=40+8+8 bytes) 2001:db8::10 --> 2001:db8::1\n"
    text += "".join(f"16 bytes from 2001:db8::1, icmp_seq={k} hlim=57 time=12.5 ms\n" for k in range(3))
    text += "\n--- 2001:db8::1 ping6 statistics ---\n3 packets transmitted, 3 packets received, 0.0% packet loss\n"
    assert import_trace(put(tmp_path, text), options=EACH_SECOND).rtt_ms.tolist() == [12.5] * 3


def test_ping_of_linux_over_ipv6_needs_no_period(tmp_path):
    text = "PING 2001:db8::1(2001:db8::1) 56 data bytes\n"
    text += "".join(f"64 bytes from 2001:db8::1: icmp_seq={k} ttl=57 time=12.5 ms\n" for k in (1, 2, 4))
    text += "\n4 packets transmitted, 3 received, 25% packet loss, time 3004ms\n"
    assert import_trace(put(tmp_path, text)).loss_ratio.tolist() == [0, 0, 1, 0]


def test_a_run_that_was_cut_is_refused_with_that_reason(tmp_path):
    with pytest.raises(Refusal, match="no line `N packets transmitted`: the run was cut"):
        import_trace(put(tmp_path, HEAD + reply(0)), options=EACH_SECOND)


LINUX = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n"
LINUX += "".join(f"64 bytes from 192.0.2.1: icmp_seq={k} ttl=58 time=20 ms\n" for k in range(1, 6))
LINUX += (
    "\n--- 192.0.2.1 ping statistics ---\n5 packets transmitted, 5 received, 0% packet loss, time 4004ms\n"
)
LINUX += "rtt min/avg/max/mdev = 20.000/20.000/20.000/0.000 ms\n"
BSD = HEAD + "".join(reply(k) for k in range(5)) + END % (5, 5, "0.0%")


@pytest.mark.parametrize("run", [LINUX, BSD, BSD.replace("icmp_seq", "seq")])
@pytest.mark.parametrize("stamp", ["", "[1716823272.452] "])
def test_a_second_run_is_refused(tmp_path, run, stamp):
    once = "".join(f"{stamp}{line}\n" for line in run.splitlines())
    first = len(once.splitlines()) + 1
    headless = once[once.index("\n") + 1 :]
    cut = once[: once.index("packets transmitted")].rsplit("\n", 1)[0] + "\n"
    for text, line in (
        (once + once, first),
        (headless + headless, first - 1),
        (once + headless, first),
        (cut + once, len(cut.splitlines()) + 1),
    ):
        with pytest.raises(Refusal, match=rf"x:{line}: a second run begins here"):
            import_trace(put(tmp_path, text), "ping", options=EACH_SECOND)
    assert import_trace(put(tmp_path, once), "ping", options=EACH_SECOND).loss_ratio.max() == 0


@pytest.mark.parametrize("run", [LINUX, BSD, BSD.replace("icmp_seq", "seq")])
@pytest.mark.parametrize("missing", [[1], [2, 3], [5]])
def test_lines_that_are_missing_are_no_losses(tmp_path, run, missing):
    text = "".join(f"{line}\n" for k, line in enumerate(run.splitlines()) if k not in missing)
    with pytest.raises(
        Refusal, match=rf"x:\d+: 5 packets received, but {5 - len(missing)} replies are in the file"
    ):
        import_trace(put(tmp_path, text), options=EACH_SECOND)


def test_more_replies_than_were_received_are_refused(tmp_path):
    with pytest.raises(Refusal, match="2 packets received, but 3 replies are in the file"):
        import_trace(
            put(tmp_path, HEAD + "".join(reply(k) for k in range(3)) + END % (3, 2, "33%")),
            options=EACH_SECOND,
        )


def test_a_quiet_ping_is_refused_with_that_reason(tmp_path):
    with pytest.raises(Refusal, match=r"no reply in it, nothing to import \(ping -q prints none\)"):
        import_trace(put(tmp_path, HEAD + END % (5, 5, "0.0%")), options=EACH_SECOND)
