// Empty: a package with assembly may declare functions without a body, as node.go does for go:linkname.
