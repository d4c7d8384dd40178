"""The renderer, and every template against a file that a person has looked at.

After a wanted change: `pytest tests/templates --update-golden`, then read the difference.
"""

import difflib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import templates
from headnode.clock import Clock
from headnode.directory.server import Slapd
from headnode.errors import TemplateFault
from headnode.exports import Exports
from headnode.lab.bmc import SENSORS, LabBmc, emulation, lan_conf
from headnode.lab.world import site_text as lab_site
from headnode.model import BmcAccess, Intent, Nic, Node, Window
from headnode.packagecache import PackageCache
from headnode.paths import Paths
from headnode.site import Boot, Site, Storage
from headnode.units import unit_files
from headnode.workflows import burnin, init
from images import preseed, seed
from pxe.boot import BootScripts
from pxe.dnsmasq import Dnsmasq
from pxe.nginx import Nginx
from tests.conftest import GIVEN

GOLDEN = Path(__file__).parent.parent / "golden"
NODE = Node(
    "gpu01",
    "gpu",
    (Nic("52:54:00:aa:00:01", address="10.20.1.0"), Nic("52:54:00:bb:00:01", "storage", "10.22.1.0")),
    BmcAccess("10.21.0.11"),
)
PATHS = Paths(Path("/"))
WINDOW = Window(datetime(2030, 1, 1, tzinfo=UTC), "10.20.255.0", "10.20.255.254")
DNSMASQ = Dnsmasq(PATHS)
LAB_BMCS = (
    LabBmc("gpu01", "10.21.0.11", "secret", chassis_command="/bin/chassis gpu01", serial_port=9011, in_band_port=9021),
    LabBmc("gpu02", "10.21.0.12", "secret", mc=0x21, sensors=SENSORS[:1], serial_number="SN-2"),
)


BURNED_IN = [
    {"name": "burn-in <stress>", "ok": False, "message": "<b>bad</b>"},
    {"name": "burn-in heat", "ok": True, "message": "at most 80 °C",
     "data": {"highest": 80.0, "times": [0, 10, 20], "series": {"GPU 0": [30.0, 70.0, 80.0]}}},
]  # fmt: skip


def boot_script(intent: Intent) -> Callable[[Site], str]:
    return lambda site: only(BootScripts().node_files(site, replace(NODE, intent=intent)))


def grub_script(intent: Intent) -> Callable[[Site], str]:
    return lambda site: only(BootScripts().node_files(with_shim(site), replace(NODE, intent=intent)), ".grub")


def with_shim(site: Site) -> Site:
    return site.model_copy(update={"boot": Boot(uefi="shim")})


def with_bmc_dhcp(site: Site) -> Site:
    management = site.networks["management"].model_copy(update={"dhcp": True})
    return site.model_copy(update={"networks": {**site.networks, "management": management}})


def with_shares(site: Site) -> Site:
    mounts = ({"source": "head:/srv/datasets", "path": "/datasets", "read_only": True},)
    return site.model_copy(update={"storage": Storage.model_validate({"home": "head:/srv/home", "mounts": mounts})})


def only(files: object, name: str = "") -> str:
    (found,) = [file for path, file in files.items() if name in path]  # type: ignore[attr-defined]
    return str(found.content.decode())


def installer_script(site: Site) -> str:
    words = preseed.arguments("gpu01", site, "http://10.20.0.1/node/v1/seed/secret", "ttyS0,115200")
    return templates.render(
        "boot/installer.ipxe.j2", made_from="node gpu01, deployment 7", node=NODE, head=site.provision.head,
        media="debian-12@1", arguments=words,
    )  # fmt: skip


# Template → how it is rendered here. Included ones are seen through those that include them.
RENDERED: dict[str, Callable[[Site], str]] = {
    "boot/disk.ipxe": boot_script(Intent.DISK),
    "boot/inspect.ipxe": boot_script(Intent.INSPECT),
    "boot/deploy.ipxe": boot_script(Intent.DEPLOY),
    "boot/rescue.ipxe": boot_script(Intent.RESCUE),
    "boot/live.ipxe": boot_script(Intent.LIVE),
    "boot/installer.ipxe": installer_script,
    "boot/unknown.ipxe": lambda site: only(BootScripts().site_files(site)),
    "boot/discover.ipxe": lambda site: only(BootScripts(WINDOW).site_files(site), "discover"),
    "boot/start.grub": lambda site: only(BootScripts().site_files(with_shim(site)), "grub.cfg"),
    "boot/disk.grub": grub_script(Intent.DISK),
    "boot/inspect.grub": grub_script(Intent.INSPECT),
    "boot/deploy.grub": grub_script(Intent.DEPLOY),
    "boot/rescue.grub": grub_script(Intent.RESCUE),
    "boot/live.grub": grub_script(Intent.LIVE),
    "grub/disk.cfg": lambda site: templates.render("grub/disk.cfg.j2", made_from="UEFI machines"),
    "nginx/nginx.conf": lambda site: only(Nginx(PATHS).site_files(site)),
    "chrony/chrony.conf": lambda site: only(Clock(PATHS).site_files(site)),
    "ganesha/ganesha.conf": lambda site: only(Exports(PATHS).site_files(with_shares(site))),
    "apt-cacher-ng/acng.conf": lambda site: only(PackageCache(PATHS).site_files(site)),
    "slapd/slapd.conf": lambda site: only(Slapd(PATHS).site_files(site), "slapd.conf"),
    "slapd/headnode.schema": lambda site: only(Slapd(PATHS).site_files(site), "schema"),
    "dnsmasq/management.conf": lambda site: only(DNSMASQ.site_files(with_bmc_dhcp(site)), "management"),
    "systemd/service": lambda site: unit_files(site, PATHS, "/usr/bin/headnode")["headnode-dnsmasq.service"],
    "overlay/report.service": lambda site: templates.render("overlay/report.service.j2", made_from="node gpu01"),
    "systemd/target": lambda site: unit_files(site, PATHS, "/usr/bin/headnode")["headnode.target"],
    "dnsmasq/provision.conf": lambda site: only(DNSMASQ.site_files(site), "provision"),
    "dnsmasq/names.conf": lambda site: only(DNSMASQ.site_files(site), "names"),
    "dnsmasq/host": lambda site: only(DNSMASQ.node_files(site, NODE), "provision.d"),
    "dnsmasq/names": lambda site: only(DNSMASQ.node_files(site, NODE), "names.d"),
    "lab/lan.conf": lambda site: lan_conf("gpu01", LAB_BMCS, control_port=9001),
    "lab/bmc.emu": lambda site: emulation("gpu01", LAB_BMCS),
    "report/burnin.html": lambda site: burnin.page("demo", {"gpu01": BURNED_IN}, WINDOW.until),
    "seed/boot.ipxe": lambda site: seed.script("boot.ipxe", site, NODE),
    "seed/grub.cfg": lambda site: seed.script("grub.cfg", site, NODE),
    "lab/site.yaml": lambda site: lab_site("lab", "/etc/headnode/bmc.password", "ssh-ed25519 AAAAC3Nz lab"),
    "site/site.yaml": lambda site: init.site_text(GIVEN),
}
INCLUDED = {"boot/ramdisk.ipxe.j2", "boot/drives.ipxe.j2", "boot/ramdisk.grub.j2", "boot/local.grub.j2"}


@pytest.mark.parametrize("name", RENDERED)
def test_a_rendered_file_is_the_one_that_was_looked_at(name: str, site: Site, request: pytest.FixtureRequest) -> None:
    text, golden = RENDERED[name](site), GOLDEN / name
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text)
    wanted = golden.read_text() if golden.exists() else ""
    difference = "\n".join(
        difflib.unified_diff(wanted.splitlines(), text.splitlines(), "golden", "rendered", lineterm="")
    )
    assert text == wanted, f"{difference}\n('pytest --update-golden' if this is what is wanted)"


def test_every_template_has_a_golden_file() -> None:
    shipped = {str(path.relative_to(templates.HERE)) for path in templates.HERE.rglob("*.j2")}
    # Those of a node's own files are looked at in tests/images/test_overlay.py.
    # Those of installers' answers in test_autoinstall.py and test_preseed.py.
    elsewhere = ("overlay/", "autoinstall/", "preseed/")
    shipped = {name for name in shipped if not name.startswith(elsewhere) or name[:-3] in RENDERED}
    assert shipped - INCLUDED == {f"{name}.j2" for name in RENDERED}


@pytest.mark.parametrize(
    "name", [name for name in RENDERED if not name.startswith(("site/", "grub/", "lab/", "report/"))]
)
def test_every_published_file_says_its_template_and_what_it_was_made_from(name: str, site: Site) -> None:
    start = "\n".join(RENDERED[name](site).splitlines()[:2])
    assert f"Made by headnode from templates/{name}.j2 for " in start
    assert "site demo" in start or "node gpu01" in start


@pytest.fixture
def render(tmp_path: Path) -> Callable[..., str]:
    """Render a text as a template of its own."""

    def rendered(text: str, **values: object) -> str:
        (tmp_path / "mine.j2").write_text(text)
        return templates.render_with(templates.environment.__wrapped__(tmp_path), "mine.j2", values)

    return rendered


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("one\n{{ nobody }}", "mine.j2, line 2", "'nobody' is undefined"),
        ("{{ node.nothing }}", "mine.j2, line 1", "no attribute 'nothing'"),
        ("a\nb\n{% if %}", "mine.j2, line 3", "Expected an expression"),
        ("{{ 1 / zero }}", "mine.j2, line 1", "division by zero"),
        ("{{ 'a' + zero }}", "mine.j2, line 1", "str"),
        ("{% include 'gone.j2' %}", "mine.j2", "no template gone.j2"),
        ("{{ node.nics[7] }}", "mine.j2, line 1", "has no element 7"),
    ],
)
def test_an_error_names_template_line_and_variable(
    render: Callable[..., str], text: str, where: str, words: str
) -> None:
    with pytest.raises(TemplateFault) as caught:
        render(text, node=NODE, zero=0)
    assert caught.value.message.startswith(f"template {where}")
    assert words in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ node.__init__.__globals__ }}",
        "{{ header.__globals__ }}",
        "{{ node.settings.update({'a': 1}) }}",
        "{% for c in ().__class__.__base__.__subclasses__() %}{% endfor %}",
    ],
)
def test_a_template_reaches_nothing_but_its_values(render: Callable[..., str], text: str) -> None:
    with pytest.raises(TemplateFault):
        render(text, node=NODE)


def test_a_template_that_is_not_there_is_named() -> None:
    with pytest.raises(TemplateFault, match="there is no template nothing"):
        templates.render("nothing.j2")


def test_line_ends_and_blocks_leave_no_holes(render: Callable[..., str]) -> None:
    assert render("a\n{% for x in [1, 2] %}\n{{ x }}\n{% endfor %}\nb\n") == "a\n1\n2\nb\n"
    assert render("{{ 'AA:BB' | mac_dashes }}") == "AA-BB"
