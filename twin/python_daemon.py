"""The process that Spark forks its Python workers from: it loads once what each of them would load for itself.

Named by `spark.python.daemon.module`. A worker that loads pandas and PySpark's own modules takes 0.5 to 1.1 s of CPU.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from pyspark import daemon

LOADED: Final = ("pandas", "pyspark.worker", "twin.decoded")

if __name__ == "__main__":
    for module in LOADED:
        import_module(module)
    daemon.manager()
