"""One module for each page: handlers of a few lines that ask a workflow and fill a template."""

from flask import Flask


def register(app: Flask) -> None:
    from headnode.web.pages import cluster, live, login, node, nodes

    for blueprint in (login.login, live.live, cluster.cluster, nodes.nodes, node.node):
        app.register_blueprint(blueprint)
