//go:build tools

// Package tools pins the commands that the end-to-end tests build and run.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kubelet"
)
