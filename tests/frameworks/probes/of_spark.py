"""A Spark program: its master, its executors, and where their tasks run. With "wait" it does not end by itself."""

import json
import os
import sys
import time

from pyspark.sql import SparkSession

context = SparkSession.builder.appName("probe").getOrCreate().sparkContext


def look(numbers):
    """In an executor: who runs me, on which cores, and one number of work."""
    time.sleep(0.5)  # so that every executor has its turn
    yield os.environ.get("SPARK_EXECUTOR_DIRS", ""), tuple(sorted(os.sched_getaffinity(0))), sum(numbers)


tasks = context.parallelize(range(1, 101), 8).mapPartitions(look).collect()
executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is counted too
report = {
    "version": context.version, "master": context.master, "executors": executors, "sum": sum(one[2] for one in tasks),
    "cores": sorted({one[1] for one in tasks}), "driver": sorted(os.sched_getaffinity(0)),
    "parallel": context.defaultParallelism, "memory": context.getConf().get("spark.executor.memory"),
    "each": context.getConf().get("spark.executor.cores"),
}  # fmt: skip
sys.stdout.write(json.dumps(report) + "\n")
sys.stdout.flush()
if sys.argv[1:] == ["wait"]:
    time.sleep(300)
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
