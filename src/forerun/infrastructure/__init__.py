"""What there is to run on: partitions of nodes, boards, links, storage, prices and limits.

    name: workstations
    scheduler: slurm
    container: apptainer
    currency: EUR

    partitions:
      cpu:
        nodes: 2
        processors: { count: 2, microarchitecture: zen3, cores: 32, threads: 64 }
        memory: 256 GiB
        links: { between: { bandwidth: 10 Gbit/s, latency: 30us } }
        price: { node: 0.80 }         # an hour
        power: { node: 450 }          # watts
        limits: { walltime: 24h, nodes: 2 }

    storage:
      home: { bandwidth: 120 MB/s, path: /home }
      scratch: { bandwidth: 2 GB/s, path: /scratch, kind: ssd }

One file describes clusters for training and boards for inference alike. `forerun infra detect`
writes it for this machine.
"""

from forerun.infrastructure.description import (
    Accelerators,
    Board,
    Infrastructure,
    Limits,
    Link,
    Links,
    Partition,
    Power,
    Price,
    Processors,
    Storage,
)

__all__ = [
    "Accelerators",
    "Board",
    "Infrastructure",
    "Limits",
    "Link",
    "Links",
    "Partition",
    "Power",
    "Price",
    "Processors",
    "Storage",
]
