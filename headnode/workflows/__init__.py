"""What the product does, one module for each thing; the CLI, the API and the web pages only call these."""
