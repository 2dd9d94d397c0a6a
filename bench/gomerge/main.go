// Merges topology hints with the kubelet's own Topology Manager and says how long that took.
//
// Reads one JSON list of merges from standard input, writes the list of their results to standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

// Each provider offers one list of hints. No masks at all (null) is any NUMA node.
type hint struct {
	NUMA      []int `json:"numa"`
	Preferred bool  `json:"preferred"`
}

type merge struct {
	Policy    string     `json:"policy"`
	Closest   bool       `json:"closest"`
	Distances [][]uint64 `json:"distances"`
	Providers [][]hint   `json:"providers"`
}

type result struct {
	hint
	Admit   bool    `json:"admit"`
	Seconds float64 `json:"seconds"`
}

func main() {
	var merges []merge
	check(json.NewDecoder(os.Stdin).Decode(&merges))
	results := make([]result, 0, len(merges))
	for _, one := range merges {
		results = append(results, run(one))
	}
	check(json.NewEncoder(os.Stdout).Encode(results))
}

func run(m merge) result {
	options := topologymanager.PolicyOptions{PreferClosestNUMA: m.Closest, MaxAllowableNUMANodes: 64}
	policy := policyOf(m, options)
	providers := make([]map[string][]topologymanager.TopologyHint, 0, len(m.Providers))
	for _, hints := range m.Providers {
		providers = append(providers, map[string][]topologymanager.TopologyHint{"resource": convert(hints)})
	}
	started := time.Now()
	merged, admit := policy.Merge(logr.Discard(), providers)
	found := result{Admit: admit, Seconds: time.Since(started).Seconds()}
	found.Preferred = merged.Preferred
	if merged.NUMANodeAffinity != nil {
		found.NUMA = append([]int{}, merged.NUMANodeAffinity.GetBits()...)
	}
	return found
}

func policyOf(m merge, options topologymanager.PolicyOptions) topologymanager.Policy {
	nodes := make([]cadvisorapi.Node, 0, len(m.Distances))
	for id, distances := range m.Distances {
		nodes = append(nodes, cadvisorapi.Node{Id: id, Distances: distances})
	}
	info, err := topologymanager.NewNUMAInfo(nodes, options)
	check(err)
	switch m.Policy {
	case topologymanager.PolicyBestEffort:
		return topologymanager.NewBestEffortPolicy(info, options)
	case topologymanager.PolicyRestricted:
		return topologymanager.NewRestrictedPolicy(info, options)
	case topologymanager.PolicySingleNumaNode:
		return topologymanager.NewSingleNumaNodePolicy(info, options)
	}
	check(fmt.Errorf("unknown policy %q", m.Policy))
	return nil
}

func convert(hints []hint) []topologymanager.TopologyHint {
	converted := make([]topologymanager.TopologyHint, 0, len(hints))
	for _, one := range hints {
		h := topologymanager.TopologyHint{Preferred: one.Preferred}
		if one.NUMA != nil {
			mask, err := bitmask.NewBitMask(one.NUMA...)
			check(err)
			h.NUMANodeAffinity = mask
		}
		converted = append(converted, h)
	}
	return converted
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gomerge:", err)
		os.Exit(1)
	}
}
