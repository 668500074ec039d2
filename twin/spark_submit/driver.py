"""`python -m twin` as the file that spark-submit wants; beside it lies nothing that another module could be mistaken for."""

import sys
from importlib.metadata import version

import pyspark

# Before anything of the twin's, which another release may not be able to load.
if pyspark.__version__ != version("pyspark"):
    print(f"SPARK_HOME: PySpark {pyspark.__version__}: the twin needs {version('pyspark')}", file=sys.stderr)
    sys.exit(2)

from twin.__main__ import main

sys.exit(main(sys.argv[1:]))
