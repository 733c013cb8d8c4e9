"""A Ray cluster of a head without processors and two workers, on loopback: prints its address, then obeys its input.

A line ``kill`` ends a worker with all its processes at once. It ends with its input. Run by ``cli/test_impact_ray.py``.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

LOOPBACK = "127.0.0.2"
PATIENCE = 240
"""Seconds that the nodes may take to join on a busy machine."""
MEMORY = 100 << 20
"""Bytes of each node's object store."""


def started() -> tuple[Cluster, list[Any]]:
    """A cluster and its workers. On a busy machine a node may miss the 30 s that Ray gives it, so it is tried again."""
    for attempts_left in range(4, -1, -1):
        try:
            return _started()
        except Exception:
            if not attempts_left:
                raise
            traceback.print_exc()
    raise AssertionError("unreachable: the last attempt returns or raises")


def _started() -> tuple[Cluster, list[Any]]:
    options = {"node_ip_address": LOOPBACK, "object_store_memory": MEMORY, "include_dashboard": False, "wait": False}
    cluster = Cluster(initialize_head=True, head_node_args={**options, "num_cpus": 0})
    workers = [cluster.add_node(**options, num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes(PATIENCE)
    return cluster, workers


def main() -> None:
    logging.disable()
    cluster, workers = started()
    print(cluster.address, flush=True)  # noqa: T201  # for the test
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(workers.pop(), allow_graceful=False)
            print("killed", flush=True)  # noqa: T201  # as above
    cluster.shutdown()


if __name__ == "__main__":
    main()
