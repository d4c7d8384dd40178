"""A cluster on one machine: namespaces, switches and emulated machines that always clean up.

`lab.py` owns what must be cleaned up, `net.py` the wires, `process.py` the programs, `machine.py` and
`qemu.py` the emulated machines, `client.py`, `fetch.py` and `load.py` synthetic nodes, `rogue.py` somebody
else's DHCP server.
"""
