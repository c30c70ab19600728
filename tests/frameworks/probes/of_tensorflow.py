"""A TensorFlow process: its threads as the kernel lists them, and under TF_CONFIG a sum over all workers."""

import collections
import json
import os
import sys

import tensorflow as tf

report = {"version": tf.__version__, "cores": sorted(os.sched_getaffinity(0)), "rank": os.environ["COHABIT_RANK"]}
if "TF_CONFIG" in os.environ:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step():
        return tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0))

    report |= {"size": strategy.num_replicas_in_sync, "sum": float(strategy.run(step))}
else:
    matrix = tf.random.normal((2000, 2000))
    float(tf.reduce_sum(matrix @ matrix))  # so that the pools of threads are there
    names = collections.Counter()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm") as stream:
            names[stream.read().strip()] += 1
    report |= {"threads": sum(names.values()), "inter": names["tf_Compute"]}
sys.stdout.write(json.dumps(report) + "\n")
