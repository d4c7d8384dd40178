"""Boot scripts per second beside plain nginx serving a file, and bytes per second beside plain nginx with sendfile.

Both run in the same network namespace, one after the other, with as many workers. Needs root, nginx and wrk.

    .venv/bin/python -m bench.boot_http [--seconds 5]
"""

import argparse
import os
import re
import time

from headnode import sitefile
from headnode.lab.lab import Lab, lab
from headnode.lab.net import Namespace
from headnode.lab.process import Process
from headnode.paths import Paths
from pxe.nginx import CONFIG, Nginx, prepare

SITE = """
cluster: bench
domain: bench.lan
networks:
  provision: {cidr: 10.20.0.0/16, interface: eth0, head: 10.20.0.1, node_range: 10.20.1.0-10.20.1.255}
"""
PLAIN = """
daemon off; user root; worker_processes auto; pid {home}/nginx.pid; error_log stderr;
events {{ worker_connections 8192; }}
http {{
  client_body_temp_path {home}/a; proxy_temp_path {home}/b; fastcgi_temp_path {home}/c; uwsgi_temp_path {home}/d;
  scgi_temp_path {home}/e; sendfile on; tcp_nopush on; access_log off;
  server {{ listen 10.20.0.1:80; root {root}; }}
}}
"""
SIZE = 64 << 20


def start_ours(lab: Lab, head: Namespace, paths: Paths) -> Process:
    config = paths.published / CONFIG
    config.parent.mkdir(parents=True)
    config.write_bytes(Nginx(paths).site_files(sitefile.parse(SITE.encode(), "site.yaml"))[CONFIG].content)
    prepare(paths)
    return lab.start(head, "ours", ["nginx", "-e", "stderr", "-g", "daemon off;", "-c", config])


def start_plain(lab: Lab, head: Namespace, paths: Paths) -> Process:
    home = lab.directory / "plain"
    home.mkdir()
    (home / "nginx.conf").write_text(PLAIN.format(home=home, root=paths.root / "plain"))
    return lab.start(head, "plain", ["nginx", "-e", "stderr", "-c", home / "nginx.conf"])


def wrk(nodes: Namespace, path: str, seconds: int, *words: str) -> tuple[float, float]:
    """Requests and bytes per second."""
    argv = ["wrk", "-t2", "-c64", f"-d{seconds}s", *words, f"http://10.20.0.1{path}"]
    said = nodes.run(argv, timeout=seconds + 30).stdout
    assert "Non-2xx" not in said, said
    requests = re.search(r"Requests/sec:\s+([\d.]+)", said)
    volume = re.search(r"Transfer/sec:\s+([\d.]+)([KMG]?)B", said)
    assert requests is not None, said
    assert volume is not None, said
    return float(requests[1]), float(volume[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[volume[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    seconds = parser.parse_args().seconds
    with lab(f"h{os.getpid():x}") as running:
        head, nodes, wire = running.host("head"), running.host("nodes"), running.switch()
        wire.attach(head, "eth0", address="10.20.0.1/16")
        wire.attach(nodes, "eth0", address="10.20.1.1/16")
        paths = Paths(running.directory / "root")
        script = b"#!ipxe\n" + b"echo Headnode: a script like any other\n" * 12
        big = os.urandom(1 << 20) * (SIZE >> 20)
        plain = paths.root / "plain"
        for path, content in ((paths.published / "http/boot/10.20.1.1.ipxe", script), (plain / "boot", script),
                              (paths.state / "images/big", big), (plain / "images/big", big)):  # fmt: skip
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, start in (("Headnode's nginx", start_ours), ("plain nginx", start_plain)):
            process = start(running, head, paths)
            process.wait_listening("tcp", 80)
            report(name, nodes, seconds)
            process.stop()
            time.sleep(1)


def report(name: str, nodes: Namespace, seconds: int) -> None:
    kept, _ = wrk(nodes, "/boot", seconds)
    closed, _ = wrk(nodes, "/boot", seconds, "-H", "Connection: close")
    _, volume = wrk(nodes, "/images/big", seconds)
    print(
        f"{name:<18} {kept:>8.0f} scripts/s  {closed:>8.0f} with a connection each  {volume / 1e9:>6.2f} GB/s of images"
    )


if __name__ == "__main__":
    main()
