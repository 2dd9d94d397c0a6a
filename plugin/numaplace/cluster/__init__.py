"""The API server: the specs of this node's pods, and Events on them. The only package that talks to it."""
