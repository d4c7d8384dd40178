"""Cobbler's sync of many systems, timed; run by Cobbler's own Python (see bench/README.md), by bench/publish.py.

Prints the seconds of one full sync on the last line. It replaces the systems of that Cobbler: use a scratch machine.
"""

import logging
import sys
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from cobbler.api import CobblerAPI  # type: ignore[import-not-found]  # noqa: E402 - after the warnings are off

count = int(sys.argv[1])
api = CobblerAPI(is_cobblerd=True)
for system in list(api.systems()):
    api.remove_system(system.name)
boot = Path("/var/lib/cobbler/bench")
boot.mkdir(exist_ok=True)
(boot / "vmlinuz").write_text("kernel")
(boot / "initrd.img").write_text("initrd")
if api.find_distro(name="bench") is None:
    distro = api.new_distro()
    distro.name, distro.kernel, distro.initrd = "bench", str(boot / "vmlinuz"), str(boot / "initrd.img")
    distro.breed, distro.os_version, distro.arch = "debian", "bullseye", "x86_64"
    api.add_distro(distro)
    profile = api.new_profile()
    profile.name, profile.distro = "bench", "bench"
    api.add_profile(profile)
for i in range(1, count + 1):
    system = api.new_system()
    system.name, system.profile = f"gpu{i:05d}", "bench"
    mac, address = f"52:54:00:00:{i >> 8:02x}:{i & 255:02x}", f"10.20.{1 + (i >> 8)}.{i & 255}"
    system.interfaces = {"eth0": {"mac_address": mac, "ip_address": address}}
    api.add_system(system)
start = time.perf_counter()
api.sync()
print(time.perf_counter() - start)
