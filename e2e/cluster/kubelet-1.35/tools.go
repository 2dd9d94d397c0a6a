//go:build tools

// Package tools pins the older kubelet that one node of the cluster tests runs.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kubelet"
)
