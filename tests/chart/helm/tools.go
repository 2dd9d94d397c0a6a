//go:build tools

// Package tools pins the helm that the chart's tests render with.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
