"""The small Linux that inspects, deploys and rescues: how it is made, and how it starts."""
