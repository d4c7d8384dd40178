"""Starts headnode-reconcile again and again without importing it each time: a line in, a process id out."""

import os
import sys

from headnode.reconcile.__main__ import main


def serve() -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            main()
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        # Whoever was killed is gone before the next is asked for.
        os.waitpid(child, 0)


if __name__ == "__main__":
    serve()
