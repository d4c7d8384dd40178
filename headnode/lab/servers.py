"""Real servers for lab hosts, from a few lines of configuration; nothing of the machine's own is touched."""

from collections.abc import Iterable
from pathlib import Path

from headnode.lab.lab import Lab
from headnode.lab.net import Namespace
from headnode.lab.process import Process

DHCP_PORT = 67


def start_dnsmasq(lab: Lab, host: Namespace, name: str, lines: Iterable[str]) -> Process:
    """A dnsmasq with these configuration lines, DHCP ready."""
    config = lab.directory / f"{name}.conf"
    leases = lab.directory / f"{name}.leases"
    common = ["port=0", "bind-interfaces", "no-resolv", "no-hosts", "log-dhcp", f"dhcp-leasefile={leases}"]
    config.write_text("".join(f"{line}\n" for line in (*common, *lines)))
    process = lab.start(host, name, dnsmasq_argv(config))
    process.wait_listening("udp", DHCP_PORT)
    return process


def dnsmasq_argv(config: Path) -> list[str]:
    return [
        "dnsmasq",
        "--keep-in-foreground",
        f"--conf-file={config}",
        "--user=root",
        "--pid-file",
        "--log-facility=-",
    ]


def start_nginx(lab: Lab, host: Namespace, server: str, *, http: str = "access_log off;", port: int = 80) -> Process:
    """An nginx whose `server` block has these lines beside its `listen`."""
    home = lab.directory / "nginx"
    home.mkdir(exist_ok=True)
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{name}_temp_path {home}/{name};" for name in paths)
    config = home / "nginx.conf"
    config.write_text(
        f"daemon off; user root; worker_processes 1; pid {home}/nginx.pid; error_log stderr;\n"
        "events { worker_connections 4096; }\n"
        f"http {{ {temporary} sendfile on; {http}\n server {{ listen {port} backlog=4096; {server} }} }}\n"
    )
    process = lab.start(host, "nginx", ["nginx", "-c", config, "-e", "stderr"])
    process.wait_listening("tcp", port)
    return process
