"""systemd units, made from the same description of services that 'headnode up' runs."""

import templates
from headnode.paths import Paths
from headnode.services import services
from headnode.site import Site


def unit_files(site: Site, paths: Paths, program: str) -> dict[str, str]:
    found = services(site, paths)
    values = {"paths": paths, "program": program, "made_from": f"site {site.cluster}"}
    files = {
        f"headnode-{service.name}.service": templates.render("systemd/service.j2", service=service, **values)
        for service in found
    }
    files["headnode.target"] = templates.render("systemd/target.j2", services=found, **values)
    return files
