//go:build tools

// Package tools pins the kind that checks the configuration, and that runs it where there is docker.
package tools

import _ "sigs.k8s.io/kind"
