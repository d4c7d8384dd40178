"""The lab's image and ramdisk for tests: the same builds, made once for all test runs on a machine."""

import os
from pathlib import Path

from headnode.lab import stock
from images.store import Image

CACHE = Path(os.environ.get("HEADNODE_TEST_CACHE", stock.CACHE))
EPOCH, NODE = stock.EPOCH, stock.IMAGE


def ramdisk_base() -> Path:
    return stock.ramdisk_base(cache=CACHE)


def node_image() -> Image:
    return stock.image(cache=CACHE)
