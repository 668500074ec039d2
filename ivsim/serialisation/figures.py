"""The study's figures, drawn as SVG; draws only what it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "ivsim"  # the same figures give the same file

from matplotlib import pyplot as plt  # noqa: E402 - the back end is chosen first
from matplotlib.ticker import MaxNLocator  # noqa: E402

PUBLISHED: Final = {"json": 12_187, "protobuf": 1_157, "flatbuffers": 3_536}


def sizes(path: Path, found: dict[str, list[int]]) -> None:
    """Draw one histogram per format: two peaks and small outliers, the published mean as a line."""
    figure, axes = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3), constrained_layout=True)
    for axis, (name, lengths) in zip(axes, found.items(), strict=True):
        axis.hist(lengths, bins=60, color="#3b6ea5")
        axis.axvline(sum(lengths) / len(lengths), color="black", linewidth=1, label="mean")
        if name in PUBLISHED:
            axis.axvline(PUBLISHED[name], color="#c0392b", linewidth=1, linestyle="--", label="published")
        axis.set(title=name, xlabel="payload, bytes")
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.legend(fontsize=7)
    axes[0].set_ylabel("messages")
    _save(figure, path)


def times(path: Path, found: dict[str, dict[str, float]]) -> None:
    """Draw operations as groups of bars, a bar per format, microseconds on a logarithmic axis."""
    figure, axis = plt.subplots(figsize=(8, 3.4), constrained_layout=True)
    names = list(found)
    operations = list(next(iter(found.values())))
    for k, name in enumerate(names):
        places = [x + (k - len(names) / 2 + 0.5) * 0.8 / len(names) for x in range(len(operations))]
        axis.bar(places, [found[name][o] for o in operations], width=0.8 / len(names), label=name)
    axis.set_xticks(range(len(operations)), operations)
    axis.set(yscale="log", ylabel="mean time, µs")
    axis.legend(ncols=len(names), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    _save(figure, path)


def _save(figure: object, path: Path) -> None:
    assert isinstance(figure, plt.Figure)
    figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)
