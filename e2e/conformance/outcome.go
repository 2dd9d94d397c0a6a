package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Result is one line of output. Steps holds the create steps up to an error, if there was one.
type Result struct {
	Error string       `json:"error,omitempty"`
	Tries int          `json:"tries"`
	Steps []StepResult `json:"steps"`
	Node  []NodeUsage  `json:"node,omitempty"`
}

// StepResult is the outcome of a create step; a refused pod has no containers.
type StepResult struct {
	Step       int               `json:"step"`
	Pod        string            `json:"pod"`
	Admitted   bool              `json:"admitted"`
	Reason     string            `json:"reason"`
	Message    string            `json:"message"`
	Containers []ContainerResult `json:"containers"`
}

// ContainerResult is what one container has right after its pod's admission. Affinity is null for no
// preference; Preferred is false where the Topology Manager was not asked (policy none).
type ContainerResult struct {
	Name      string                  `json:"name"`
	Affinity  []int                   `json:"affinity"`
	Preferred bool                    `json:"preferred"`
	CPUs      string                  `json:"cpus"`
	Memory    []MemoryResult          `json:"memory"`
	Devices   map[string]DeviceResult `json:"devices"`
}

// MemoryResult is one block; Size belongs to the set of NUMA nodes.
type MemoryResult struct {
	Type string `json:"type"`
	Size uint64 `json:"size"`
	NUMA []int  `json:"numa"`
}

// DeviceResult holds ids in natural order and the NUMA nodes that they are on.
type DeviceResult struct {
	IDs        []string   `json:"ids"`
	NUMA       []int      `json:"numa"`
	Determined determined `json:"determined,omitempty"`
}

// containers reads what the managers gave to a pod, and whether chance gave it the lowest devices.
func (n *node) containers(ctx context.Context, pod *v1.Pod) ([]ContainerResult, bool) {
	results := []ContainerResult{}
	reusable := reuse{}
	lucky := true
	for index, container := range inOrder(pod) {
		keeps := index >= len(pod.Spec.InitContainers) || podutil.IsRestartableInitContainer(&container)
		devices, lowest := n.devicesOf(pod, container.Name, keeps, reusable)
		lucky = lucky && lowest
		hint := n.topology.GetAffinity(klog.FromContext(ctx), string(pod.UID), container.Name)
		result := ContainerResult{
			Name: container.Name, Preferred: hint.Preferred,
			CPUs:    n.cpu.GetExclusiveCPUs(string(pod.UID), container.Name).String(),
			Memory:  n.memoryOf(pod, container.Name),
			Devices: devices,
		}
		if hint.NUMANodeAffinity != nil {
			result.Affinity = hint.NUMANodeAffinity.GetBits()
		}
		results = append(results, result)
	}
	return results, lucky
}

// devicesOf follows the device manager through the pod's containers: keeps is false for those that
// leave their devices to the next ones.
func (n *node) devicesOf(
	pod *v1.Pod, container string, keeps bool, reusable reuse,
) (map[string]DeviceResult, bool) {
	results := map[string]DeviceResult{}
	lucky := true
	for resource, devices := range n.devices.GetDevices(string(pod.UID), container) {
		p := n.plugins[resource]
		ids := slices.Collect(maps.Keys(devices))
		choice, lowest := reusable.take(p, ids)
		if choice == idsDetermined {
			choice = p.chances[keyOf(ids)]
		}
		lucky = lucky && lowest
		result := DeviceResult{IDs: naturallySorted(ids), NUMA: []int{}}
		// A lowest pick is the one to compare with, whether or not it had to be.
		if p.preference == preferNone || !lowest {
			result.Determined = choice
		}
		for _, id := range ids {
			result.NUMA = append(result.NUMA, p.nodesOf(id)...)
		}
		slices.Sort(result.NUMA)
		result.NUMA = slices.Compact(result.NUMA)
		results[resource] = result
		if keeps {
			reusable.remove(resource, ids)
		} else {
			reusable.add(resource, ids)
		}
	}
	return results, lucky
}

func (n *node) memoryOf(pod *v1.Pod, container string) []MemoryResult {
	blocks := []MemoryResult{}
	for _, block := range n.memory.State().GetMemoryBlocks(string(pod.UID), container) {
		blocks = append(blocks, MemoryResult{Type: string(block.Type), Size: block.Size, NUMA: block.NUMAAffinity})
	}
	slices.SortFunc(blocks, func(a, b MemoryResult) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), slices.Compare(a.NUMA, b.NUMA))
	})
	return blocks
}
