from __future__ import annotations

import json
from pathlib import Path

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from gateways.__main__ import main
from gateways.config import read_gateway_config
from gateways.metrics import GAUGES, page
from gateways.protocols import PROTOCOLS
from schemas.errors import Refusal

GOOD = {"bootstrap": "127.0.0.1:1", "host": "127.0.0.1", "port": 1, "mode": "qos1", "metrics_port": None}


def written(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "gateway.json"
    path.write_text(json.dumps({**GOOD, **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"qos": 1}, "qos"),
        ({"port": 70_000}, "port"),
        ({"receive_max": 0}, "receive_max"),
        ({"format": "xml"}, "xml"),
        ({"faults": {"lose": []}}, "faults.lose"),
        ({"batching": {"messages": 0, "wait_ms": 1}}, "batching.messages"),
        ({"batching": {"messages": 1, "wait_ms": -1}}, "batching.wait_ms"),
        ({"batching": {"messages": 1_001, "wait_ms": 1}}, "batching.messages 1001: no batch could fill"),
    ],
)
def test_wrong_configurations_are_refused_by_name(tmp_path: Path, changes: dict, named: str) -> None:
    with pytest.raises(Refusal, match=named) as refusal:
        read_gateway_config(written(tmp_path, **changes))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("tls", "named"),
    [
        ({"ca_file": "missing.pem"}, "tls.ca_file missing.pem: No such file"),
        ({"ca_file": __file__}, "tls.ca_file .*: no certificates"),
        ({"ca_file": "{ca}", "certificate_file": "gone.pem"}, "tls.certificate_file gone.pem: No such file"),
        ({"ca_file": "{ca}", "certificate_file": __file__}, "tls.certificate_file .*: no certificate and its key"),
    ],
)  # fmt: skip
def test_tls_files_are_tried_before_anything_is_opened(tmp_path: Path, tls: dict, named: str) -> None:
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    files = {name: path.replace("{ca}", str(authority)) for name, path in tls.items()}
    with pytest.raises(Refusal, match=named) as refusal:
        read_gateway_config(written(tmp_path, tls=files))
    assert "gateway.json" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_passwords_are_not_printed(tmp_path: Path) -> None:
    config = read_gateway_config(written(tmp_path, username="u", password="hidden-word"))
    assert "hidden-word" not in repr(config) + repr(config.endpoint())


def test_unknown_mode_lists_those_there_are(tmp_path: Path, capsys) -> None:
    assert main(["mqtt", "--config", str(written(tmp_path, mode="qos3"))]) == 2
    event = json.loads(capsys.readouterr().out)
    assert event["event"] == "error"
    assert all(mode in event["message"] for mode in PROTOCOLS["mqtt"].modes)


def test_metrics_page_is_prometheus_text() -> None:
    values = {"received": 3, "held": 1, "mqtt_held": 2}
    text = page(values, GAUGES | PROTOCOLS["mqtt"].gauges, {"protocol": "mqtt", "gateway": 'a "b"'})
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert {name: family.type for name, family in families.items()} == {
        "ivsim_gateway_received": "counter",
        "ivsim_gateway_held": "gauge",
        "ivsim_gateway_mqtt_held": "gauge",
    }
    (sample,) = families["ivsim_gateway_received"].samples
    assert (sample.name, sample.value) == ("ivsim_gateway_received_total", 3)
    assert sample.labels == {"protocol": "mqtt", "gateway": 'a "b"'}
    assert families["ivsim_gateway_held"].documentation


@pytest.mark.parametrize("name", PROTOCOLS)
def test_words_choose_modes_and_refuse_strangers(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert protocol.mode({}) is protocol.modes[protocol.default_mode]
    for mode in protocol.modes.values():
        assert protocol.mode(mode.options) is mode
    with pytest.raises(Refusal, match="does not belong"):
        protocol.mode({"colour": "red"})
    word = next(iter(protocol.words))
    with pytest.raises(Refusal, match="allowed"):
        protocol.mode({word: "never"})
