"""Verification and certificate over real links, the rootless start, and the control."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulator.links import LINKS, Condition
from simulator.links.proof.certificate import certificate
from simulator.links.proof.prober import Prober
from simulator.links.proof.verify import Step, verify
from simulator.links.proof.verify_replay import verify_replay
from simulator.links.replay import LinkReplay

pytestmark = pytest.mark.netns
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timing
def test_steps_are_proven(uml_link):
    steps = [
        Step("fast", Condition(4e6, 20.0, 0.05), Condition(2e6, 10.0)),
        Step("dark", Condition(0.0, 20.0), Condition(None, 10.0)),
        Step("below the floor", Condition(600.0, 20.0), Condition(None, 10.0)),
    ]
    proofs = verify(uml_link, steps, 1.5)
    assert {check.parameter for check in proofs[0].checks} == {"delay", "loss", "rate, UDP", "rate, TCP"}
    assert [proof.verdict for proof in proofs] == ["pass"] * 3, [p.checks for p in proofs]


@pytest.mark.timing
def test_a_link_that_does_something_else_is_found(uml_link):
    class Lying:
        def __getattr__(self, name):
            return getattr(uml_link, name)

        def update(self, conditions):
            # At half the rate: of a link without one, TCP behind so much loss gets any, that asked for as well.
            uml_link.update({k: (Condition(5e5, 30.0, 0.5), down) for k, (_up, down) in conditions.items()})

    (proof,) = verify(Lying(), [Step("asked", Condition(1e6, 10.0), Condition(None, 10.0))], 1.5)
    found = {check.parameter: check.verdict for check in proof.checks if check.direction == "uplink"}
    assert (found["delay"], found["loss"]) == ("off", "off")
    # A machine that stood still in a flow leaves its rate unproven; nothing finds it right.
    assert {found["rate, UDP"], found["rate, TCP"]} <= {"off", "unproven"}


@pytest.mark.timing
def test_a_replay_follows_the_trace(uml_link):
    rates = (2e6, 5e5, 4e6, 1e6)
    checks = verify_replay(uml_link, 5, [(Condition(rate, 20.0), Condition(None, 20.0)) for rate in rates])
    late, *seconds = checks
    assert late.verdict == on_time(late.achieved_value)
    # A sender that stood still leaves its second unproven, and most of them prove what the link did.
    verdicts = [check.verdict for check in seconds]
    assert set(verdicts) <= {"pass", "unproven"}, checks
    assert verdicts.count("pass") >= len(rates) - 1, checks


def on_time(late_ms):
    """A machine that stood still at a change of second was late, and the check has to say so."""
    return "pass" if late_ms <= 100 else "off"


@pytest.mark.timing
@pytest.mark.parametrize("name", ["uml", pytest.param("direct", marks=pytest.mark.full)])
def test_a_run_is_certified(name, run_name, tmp_path):
    with LINKS[name](run_name, 12) as link:
        start_at_ns = time.time_ns() + 100_000_000

        def schedule(second):
            return {k: (Condition(1e6, 20.0 + second), Condition(4e6, 10.0)) for k in range(1, 13)}

        played = LinkReplay(link, schedule, start_at_ns, tmp_path / "steps")
        with played as replay, Prober(link, 12, start_at_ns) as prober:
            end = time.monotonic() + 20
            while prober.times.count()[1] < 120:
                assert time.monotonic() < end
                time.sleep(0.05)
        assert prober.failure is None
        found = certificate(name, prober.add_to(replay.rows()), replay.properties())
    late_ms = replay.properties()["applied_late_max_ms"]
    verdicts = {
        check["parameter"]: check["verdict"] for check in found["checks"] if check["direction"] != "downlink"
    }
    if name == "direct":
        assert (found["verdict"], verdicts) == ("unproven", {})
    else:
        assert verdicts.pop("change each second") == on_time(late_ms)
        # 60 packets cannot tell a loss of 0 from one of 3 %.
        assert verdicts == {"delay": "pass", "loss": "unproven", "rate": "unproven"}, found
        assert found["verdict"] == ("unproven" if late_ms <= 100 else "off")
    assert found["probe_bytes_uplink"] >= 60 * 48


ROOTLESS = """
import sys
from simulator.links.privileges import ensure_privileges
ensure_privileges()
from simulator.links import LINKS, Condition
from simulator.links.proof.probes import Flow, run
with LINKS["uml"](sys.argv[1], 2) as link:
    link.update({1: (Condition(None, 30.0), Condition(None, 0.0))})
    flow = Flow(1, "uplink", 114, 0.01, 50)
    run(link, [flow])
    print("RESULT", len(flow.received_at_ns), min(flow.delays_ms()))
"""


NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount", "--net"]


@pytest.fixture
def python_of_nobody():
    """As uid 65534, an interpreter of this version that this user may read; a named skip where there can be none.

    What this machine allows is asked before, of programs that are not ours: a refusal in the test is a failure.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{packages}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/",
    }

    def complaint(*command):
        asked = subprocess.run(
            [*NOBODY, *NAMESPACES, *command],
            env=environment, cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip
        return asked.returncode and f"{asked.stderr.strip()[-300:]} ({asked.returncode})"

    if (said := complaint("true")) != 0:
        pytest.skip(f"user namespaces are for root alone here: {said}")
    check = f"import sys, pyroute2; assert '%d.%d' % sys.version_info[:2] == '{version}'; open({__file__!r})"
    for python in filter(None, (sys.executable, shutil.which("python3", path="/usr/bin"))):
        if (said := complaint(python, "-c", check)) == 0:
            return python, environment
    return pytest.skip(f"another user may read no Python of this version, or not this checkout: {said}")


def test_nobody_can_run_it_in_a_user_namespace(run_name, python_of_nobody):
    python, environment = python_of_nobody
    done = subprocess.run(
        [*NOBODY, python, "-c", ROOTLESS, run_name],
        env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "RESULT" in done.stdout, done.stderr[-2000:]
    words = next(line for line in done.stdout.splitlines() if line.startswith("RESULT")).split()
    assert int(words[1]) == 50
    # The least of them: a machine that is busy delivers late, and never before the delay is over.
    assert float(words[2]) == pytest.approx(30, abs=2)
