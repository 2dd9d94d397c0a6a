package main

import (
	"context"
	"maps"
	"slices"

	"k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// NodeUsage is one NUMA node in the end: what the managers can give of each resource, and have given.
// CPU and memory are there if their manager allocates. A device of two NUMA nodes counts on both.
type NodeUsage struct {
	ID          int               `json:"id"`
	Allocatable map[string]uint64 `json:"allocatable"`
	Allocated   map[string]uint64 `json:"allocated"`
}

func (n *node) usage(ctx context.Context) []NodeUsage {
	n.collectGarbage(ctx)
	usage := map[int]NodeUsage{}
	for _, one := range n.machine.Topology {
		usage[one.Id] = NodeUsage{ID: one.Id, Allocatable: map[string]uint64{}, Allocated: map[string]uint64{}}
	}
	n.addCPUs(usage)
	for id, state := range n.memory.State().GetMachineState() {
		for name, table := range state.MemoryMap {
			if table.TotalMemSize == 0 && name != v1.ResourceMemory {
				continue // an empty pool of hugepages
			}
			usage[id].Allocatable[string(name)] = table.Allocatable
			usage[id].Allocated[string(name)] = table.Reserved
		}
	}
	n.addPlugins(usage)
	return slices.SortedFunc(maps.Values(usage), func(a, b NodeUsage) int { return a.ID - b.ID })
}

// collectGarbage has the managers forget deleted pods, as they do before the next admission.
func (n *node) collectGarbage(ctx context.Context) {
	logger := klog.FromContext(ctx)
	nobody := &v1.Pod{}
	n.cpu.GetPodTopologyHints(logger, nobody, lifecycle.AddOperation)
	n.memory.GetPodTopologyHints(logger, nobody, lifecycle.AddOperation)
	n.devices.UpdateAllocatedDevices(logger)
}

func (n *node) addCPUs(usage map[int]NodeUsage) {
	nodeOf := map[int]int{}
	for _, one := range n.machine.Topology {
		for _, core := range one.Cores {
			for _, cpu := range core.Threads {
				nodeOf[cpu] = one.Id
			}
		}
	}
	cpu := string(v1.ResourceCPU)
	for _, id := range n.cpu.GetAllocatableCPUs().List() {
		usage[nodeOf[id]].Allocatable[cpu]++
		usage[nodeOf[id]].Allocated[cpu] += 0 // so that both maps have the key
	}
	taken := map[int]bool{} // an init container and the one after it may share CPUs
	for _, containers := range n.cpu.State().GetCPUAssignments() {
		for _, cpus := range containers {
			for _, id := range cpus.List() {
				taken[id] = true
			}
		}
	}
	for id := range taken {
		usage[nodeOf[id]].Allocated[cpu]++
	}
}

func (n *node) addPlugins(usage map[int]NodeUsage) {
	logger := klog.Background()
	healthy := n.devices.GetAllocatableDevices(logger)
	for resource, p := range n.plugins {
		for id := range healthy[resource] {
			count(usage, p.nodesOf(id), func(one NodeUsage) { one.Allocatable[resource]++; one.Allocated[resource] += 0 })
		}
		for id := range n.held(resource) {
			count(usage, p.nodesOf(id), func(one NodeUsage) { one.Allocated[resource]++ })
		}
	}
}

// held are the devices of a resource that containers have, init containers among them.
func (n *node) held(resource string) map[string]bool {
	ids := map[string]bool{}
	for _, pod := range n.pods {
		for _, container := range inOrder(pod) {
			for id := range n.devices.GetDevices(string(pod.UID), container.Name)[resource] {
				ids[id] = true
			}
		}
	}
	return ids
}

// count skips NUMA nodes that the machine does not have: a plugin may name any.
func count(usage map[int]NodeUsage, nodes []int, add func(NodeUsage)) {
	for _, id := range nodes {
		if one, ok := usage[id]; ok {
			add(one)
		}
	}
}
