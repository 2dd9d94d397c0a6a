//go:build ignore

// Fills in the results of kubelet_recorded.json with the kubelet's own Topology Manager:
//
//	cd e2e/kubelet && go run ../../tests/cases/engine/record_merges.go ../../tests/cases/engine/kubelet_recorded.json
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"os"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

type hint struct {
	NUMA      []int `json:"numa"` // null: any node
	Preferred bool  `json:"preferred"`
}

type result struct {
	hint
	Admit bool `json:"admit"`
}

type merge struct {
	Policy    string              `json:"policy"`
	Closest   bool                `json:"closest"`
	Distances [][]uint64          `json:"distances"`
	Providers []map[string][]hint `json:"providers"`
	Expect    result              `json:"expect"`
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var merges []merge
	check(json.Unmarshal(text, &merges))
	out := bytes.NewBufferString("[\n")
	for i := range merges {
		merges[i].Expect = run(merges[i])
		line, err := json.Marshal(merges[i])
		check(err)
		out.Write(line)
		if i < len(merges)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	check(os.WriteFile(os.Args[1], out.Bytes(), 0o644))
}

func run(m merge) result {
	options := topologymanager.PolicyOptions{PreferClosestNUMA: m.Closest, MaxAllowableNUMANodes: 8}
	var nodes []cadvisorapi.Node
	for id, distances := range m.Distances {
		nodes = append(nodes, cadvisorapi.Node{Id: id, Distances: distances})
	}
	info, err := topologymanager.NewNUMAInfo(nodes, options)
	check(err)
	policies := map[string]topologymanager.Policy{
		"none":             topologymanager.NewNonePolicy(),
		"best-effort":      topologymanager.NewBestEffortPolicy(info, options),
		"restricted":       topologymanager.NewRestrictedPolicy(info, options),
		"single-numa-node": topologymanager.NewSingleNumaNodePolicy(info, options),
	}
	var providers []map[string][]topologymanager.TopologyHint
	for _, resources := range m.Providers {
		provider := map[string][]topologymanager.TopologyHint{}
		for name, hints := range resources {
			provider[name] = convert(hints)
		}
		providers = append(providers, provider)
	}
	merged, admit := policies[m.Policy].Merge(klog.Background(), providers)
	found := result{hint: hint{Preferred: merged.Preferred}, Admit: admit}
	if merged.NUMANodeAffinity != nil {
		found.NUMA = append([]int{}, merged.NUMANodeAffinity.GetBits()...)
	}
	return found
}

func convert(hints []hint) []topologymanager.TopologyHint {
	if hints == nil {
		return nil
	}
	converted := []topologymanager.TopologyHint{}
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
		log.Fatal(err)
	}
}
