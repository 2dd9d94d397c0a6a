//go:build tools

// Package tools pins the Prometheus that the chart's tests check queries and alerts with.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
