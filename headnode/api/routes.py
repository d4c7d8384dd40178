"""All operations of the API, added to the application."""

from flask import Flask

from headnode.api import acting, bmc, directory, images, nodes, operation, people, place

# Importing a module is what makes its operations known.
MODULES = (nodes, acting, bmc, images, place, people, directory)


def register(app: Flask) -> None:
    operation.add_to(app)
