"""Make all that follows from current_status.proto: `python -m schemas.generate` (writes schemas/ only)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def compile_protobuf(folder: Path) -> None:
    """Run protoc (grpcio-tools) on current_status.proto; CalledProcessError when it refuses the schema."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}"]
    outputs = [f"--python_out={folder}", f"--pyi_out={folder}"]
    subprocess.run([*command, *outputs, "current_status.proto"], check=True)
    stub = folder / "current_status_pb2.pyi"
    # protoc writes bare Mapping, which strict typing refuses.
    stub.write_text("# mypy: ignore-errors\n" + stub.read_text())


def derived_files() -> dict[str, str]:
    """Return what is made from the compiled schema: path below schemas/ -> text."""
    # Only now: the layout reads what protoc has just written.
    from schemas import derive, derive_code  # noqa: PLC0415
    from schemas.layout import LAYOUT  # noqa: PLC0415

    return {
        "current_status.avsc": derive.avro_schema(LAYOUT),
        "current_status.fbs": derive.flatbuffers_schema(LAYOUT),
        "generated/records.py": derive.records(LAYOUT),
        "generated/runs.py": derive_code.runs(LAYOUT),
    }


def main() -> None:
    compile_protobuf(HERE / "generated")
    for path, text in derived_files().items():
        (HERE / path).write_text(text)


if __name__ == "__main__":
    main()
