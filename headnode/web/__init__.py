"""The pages: rendered here, made livelier in the browser, readable without any script."""
