"""The process that trains one of the programs of _allocator_programs.py, and what each step took:

a JSON line with seconds, processor seconds, minor page faults and a hash of the parameters.
"""

import argparse
import hashlib
import json
import resource
import time

import torch
from _allocator_programs import PROGRAMS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    step, parameters = PROGRAMS[arguments.name]()
    seconds, processor_seconds, faults = [], [], []
    for _ in range(arguments.steps):
        faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        started, processor_started = time.perf_counter(), time.process_time()
        step()
        seconds.append(time.perf_counter() - started)
        processor_seconds.append(time.process_time() - processor_started)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults_before)
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().numpy().tobytes())
    found = {"seconds": seconds, "processor_seconds": processor_seconds, "faults": faults}
    print(json.dumps(found | {"parameters": digest.hexdigest()}))


if __name__ == "__main__":
    main()
