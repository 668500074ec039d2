"""What compose/k8s says: valid by Kubernetes' own schemas, and its parts agree with each other and with the twin's settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from ivsim.testbed.paths import ROOT
from twin.config import read_twin_config
from twin.session import settings

FOLDER = ROOT / "compose" / "k8s"
FILE, LOAD = FOLDER / "twin.yaml", FOLDER / "load.yaml"
ALL: list[dict[str, Any]] = list(yaml.safe_load_all(FILE.read_text()))


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in ALL if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


POD = named("StatefulSet", "twin")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


@pytest.fixture
def twin(tmp_path: Path) -> dict[str, Any]:
    """What the twin is told there, in a directory of this machine."""
    said: dict[str, Any] = json.loads(named("ConfigMap", "twin")["data"]["twin.json"])
    (tmp_path / "twin.json").write_text(json.dumps({**said, "run_dir": str(tmp_path)}))
    return said | {"read": read_twin_config(tmp_path / "twin.json")}


@pytest.mark.parametrize("path", [FILE, LOAD], ids=lambda path: path.name)
def test_kubernetes_takes_it(path: Path) -> None:
    command = [Path(sys.executable).with_name("kubernetes-validate"), "--strict", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert said.count(" passed for resource ") == len(list(yaml.safe_load_all(path.read_text())))


def test_each_pod_of_the_load_asks_for_a_share_of_its_own() -> None:
    """Each pod's command is what ivsim takes: with a start that is over, that is all there is to refuse."""
    (job,) = [one for one in yaml.safe_load_all(LOAD.read_text()) if one["kind"] == "Job"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    shell, option, script = container["args"]
    seen = set()
    for index in range(job["spec"]["completions"]):
        environment = (
            os.environ | given | {"JOB_COMPLETION_INDEX": str(index), "START_AT": "2026-01-01T00:00:00Z"}
        )
        printed = script.replace("exec ivsim", "printf '%s\\n'")
        words = subprocess.run(
            [shell, option, printed], env=environment, capture_output=True, text=True, check=True
        )
        command = words.stdout.splitlines()
        seen.add((command[command.index("--share") + 1], command[command.index("--share-results") + 1]))
        done = subprocess.run(
            [sys.executable, "-m", "ivsim.cli", *command],
            env=environment | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr.partition(": is ")[0]) == (
            2,
            "ivsim: --start-at 2026-01-01T00:00:00Z",
        )
    assert seen == {(f"{number}/4", given["RESULTS"]) for number in range(1, 5)}
    (keys,) = [one for one in yaml.safe_load_all(LOAD.read_text()) if one["kind"] == "Secret"]
    assert container["envFrom"] == [{"secretRef": {"name": keys["metadata"]["name"]}}]
    assert set(keys["stringData"]) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def test_a_wrong_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(
        FILE.read_text().replace("containerPort: 7001", 'containerPort: "7001"')
    )
    command = [Path(sys.executable).with_name("kubernetes-validate"), "--strict", tmp_path / "wrong.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "'7001' is not of type 'integer'" in done.stdout + done.stderr


def test_the_twin_takes_its_settings(twin: dict[str, Any]) -> None:
    config = twin["read"]
    assert (config.local, config.checkpoint.stored) == (False, True)
    found = settings(
        config.model_copy(update={"jars_dir": "", "s3_jars_dir": "", "checkpoint_dir": "file:///x"})
    )
    assert found["spark.dynamicAllocation.enabled"] == "false"
    assert {name: found[name] for name in config.spark_conf} == config.spark_conf
    slots = int(config.spark_conf["spark.executor.instances"]) * int(
        config.spark_conf["spark.executor.cores"]
    )
    # Of real time: one for each partition that is read, with that of the warm-up, and each of the shuffle.
    assert slots >= config.topic_partitions + 1 + config.shuffle_partitions


def test_executors_find_the_driver_and_kubernetes_its_files(twin: dict[str, Any]) -> None:
    service, conf = named("Service", "twin"), twin["spark_conf"]
    assert twin["driver_host"] == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    ports = [int(conf[name]) for name in ("spark.driver.port", "spark.blockManager.port")]
    assert [port["port"] for port in service["spec"]["ports"]] == ports
    assert [port["containerPort"] for port in CONTAINER["ports"]] == ports
    (rule,) = named("NetworkPolicy", "twin")["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == ports
    assert service["spec"]["selector"].items() <= POD["metadata"]["labels"].items()
    assert conf["spark.kubernetes.driver.pod.name"] == "twin-0"
    assert conf["spark.kubernetes.authenticate.serviceAccountName"] == POD["spec"]["serviceAccountName"]
    assert {one["metadata"].get("namespace", "ivsim") for one in ALL} == {conf["spark.kubernetes.namespace"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert mounts == {"config": "/etc/twin", "run": twin["run_dir"]}
    (address,) = CONTAINER["env"]
    assert (address["name"], address["valueFrom"]["fieldRef"]["fieldPath"]) == (
        "SPARK_LOCAL_IP",
        "status.podIP",
    )
    assert CONTAINER["command"][-1] == f"{mounts['config']}/twin.json"
    assert named("StatefulSet", "twin")["spec"]["replicas"] == 1


def test_keys_are_in_the_secret_alone(twin: dict[str, Any]) -> None:
    keys = set(named("Secret", "twin-store")["stringData"])
    assert keys == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert CONTAINER["envFrom"] == [{"secretRef": {"name": "twin-store"}}]
    assert not any(key in named("ConfigMap", "twin")["data"]["twin.json"] for key in keys)


def test_the_image_is_this_version_and_has_what_the_twin_names(twin: dict[str, Any]) -> None:
    text = (FOLDER / "Dockerfile").read_text()
    image = f"ivsim-twin:{version('ivsim')}"
    assert CONTAINER["image"] == twin["spark_conf"]["spark.kubernetes.container.image"] == image
    assert f"-t {image} ." in text
    for kind, place in (("spark", twin["jars_dir"]), ("s3", twin["s3_jars_dir"])):
        assert f"COPY .jars/{kind} {place}\n" in text
    for source in ("constraints.txt", "compose/k8s/entrypoint.sh"):
        assert f"{source} " in text
        assert (ROOT / source).is_file()


def test_the_entrypoint_starts_an_executor_as_spark_asks(tmp_path: Path) -> None:
    """A `java` in front of all others says what it was given; what is not `executor` is run as it is."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    asked = {
        "SPARK_EXECUTOR_MEMORY": "1g", "SPARK_DRIVER_URL": "spark://d@twin:7001", "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "8", "SPARK_APPLICATION_ID": "app-1", "SPARK_EXECUTOR_POD_IP": "192.0.2.7",
        "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "exec-3", "SPARK_HOME": "/spark",
        "SPARK_JAVA_OPT_10": "-Dlast=1", "SPARK_JAVA_OPT_2": "-Dfirst=1", "PATH": f"{tmp_path}:/usr/bin:/bin",
    }  # fmt: skip
    words = ["/bin/sh", FOLDER / "entrypoint.sh"]
    said = subprocess.run([*words, "executor"], env=asked, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "-Dfirst=1", "-Dlast=1", "-Xms1g", "-Xmx1g", "-cp", "/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend", "--driver-url", "spark://d@twin:7001",
        "--executor-id", "3", "--cores", "8", "--app-id", "app-1", "--hostname", "192.0.2.7",
        "--resourceProfileId", "0", "--podName", "exec-3",
    ]  # fmt: skip
    other = subprocess.run([*words, "echo", "a b"], env=asked, capture_output=True, text=True, check=True)
    assert other.stdout == "a b\n"
