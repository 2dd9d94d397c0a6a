//go:build tools

// Package tools pins the etcd that the cluster tests build and run.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
