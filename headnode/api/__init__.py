"""/api/v1: everything the command line can do, over HTTP."""
