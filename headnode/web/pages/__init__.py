"""One module for each page: handlers of a few lines that ask a workflow and fill a template."""

from flask import Flask


def register(app: Flask) -> None:
    from headnode.web.pages import act, cluster, enrol, images, live, login, node, nodes, people, place, racks

    for blueprint in (
        login.login,
        live.live,
        cluster.cluster,
        nodes.nodes,
        node.node,
        act.act,
        racks.racks,
        enrol.enrol,
        images.images,
        people.people,
        place.place,
    ):
        app.register_blueprint(blueprint)
