package main

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/utils/cpuset"
)

const (
	localDistance  = 10
	remoteDistance = 20
)

// cpuPlaces says where each CPU is.
type cpuPlaces struct {
	socket map[int]int
	uncore map[int]int
	core   map[int][]int // the CPU's siblings, itself among them, ascending
}

// machineInfo is what cAdvisor would report of this hardware (its utils/sysinfo).
func machineInfo(spec *NodeSpec) (*cadvisorapi.MachineInfo, error) {
	places, err := spec.CPUTopology.places()
	if err != nil {
		return nil, err
	}
	nodes := slices.Clone(spec.NumaNodes)
	slices.SortFunc(nodes, func(a, b NumaNodeSpec) int { return a.ID - b.ID })
	sizes, err := pageSizes(nodes)
	if err != nil {
		return nil, err
	}
	info := &cadvisorapi.MachineInfo{}
	sockets := map[int]bool{}
	for row, node := range nodes {
		cpus, err := cpuset.Parse(node.CPUs)
		if err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", node.ID, err)
		}
		one := cadvisorapi.Node{Id: node.ID, Distances: spec.distances(row, len(nodes))}
		if one.Cores, err = coresOf(node.ID, cpus, places); err != nil {
			return nil, err
		}
		for _, core := range one.Cores {
			sockets[core.SocketID] = true
		}
		if err := addMemory(&one, node.Amounts, sizes); err != nil {
			return nil, err
		}
		info.NumCores += cpus.Size()
		info.NumPhysicalCores += len(one.Cores)
		info.MemoryCapacity += one.Memory
		info.Topology = append(info.Topology, one)
	}
	info.NumSockets = len(sockets)
	// cAdvisor globs the node folders, which puts node10 before node2.
	sort.Slice(info.Topology, func(i, j int) bool {
		return strconv.Itoa(info.Topology[i].Id) < strconv.Itoa(info.Topology[j].Id)
	})
	return info, nil
}

// distances is one row of the matrix; the kernel lists the online nodes only, so a column is a
// position, not an id. (The kubelet takes it for an id: prefer-closest panics on sparse ids.)
func (s *NodeSpec) distances(row, nodes int) []uint64 {
	if row < len(s.Distances) {
		return s.Distances[row]
	}
	distances := make([]uint64, nodes)
	for column := range distances {
		distances[column] = remoteDistance
	}
	distances[row] = localDistance
	return distances
}

func (t *TopologySpec) places() (*cpuPlaces, error) {
	socket, err := byCPU(t.Sockets)
	if err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	uncore, err := byCPU(t.UncoreCaches)
	if err != nil {
		return nil, fmt.Errorf("uncoreCaches: %w", err)
	}
	places := &cpuPlaces{socket: socket, uncore: uncore, core: map[int][]int{}}
	for _, list := range t.Cores {
		siblings, err := cpuset.Parse(list)
		if err != nil {
			return nil, fmt.Errorf("cores: %w", err)
		}
		for _, cpu := range siblings.List() {
			places.core[cpu] = siblings.List()
		}
	}
	return places, nil
}

func byCPU(lists map[string]string) (map[int]int, error) {
	found := map[int]int{}
	for id, list := range lists {
		number, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		cpus, err := cpuset.Parse(list)
		if err != nil {
			return nil, err
		}
		for _, cpu := range cpus.List() {
			found[cpu] = number
		}
	}
	return found, nil
}

func coresOf(node int, cpus cpuset.CPUSet, places *cpuPlaces) ([]cadvisorapi.Core, error) {
	var cores []cadvisorapi.Core
	for _, cpu := range cpus.List() {
		siblings, ok := places.core[cpu]
		if !ok {
			siblings = []int{cpu}
		}
		if !cpuset.New(siblings...).IsSubsetOf(cpus) {
			return nil, fmt.Errorf("core %v is not on one NUMA node", siblings)
		}
		if siblings[0] != cpu {
			continue
		}
		core := cadvisorapi.Core{Id: cpu, Threads: siblings, SocketID: node}
		if len(places.socket) > 0 {
			if core.SocketID, ok = places.socket[cpu]; !ok {
				return nil, fmt.Errorf("CPU %d is in no socket", cpu)
			}
		}
		if id, ok := places.uncore[cpu]; ok {
			core.UncoreCaches = []cadvisorapi.Cache{{Id: id, Level: 3, Type: "Unified"}}
		}
		cores = append(cores, core)
	}
	return cores, nil
}

// pageSizes are all that a NUMA node has, in bytes: the kernel keeps a pool of each size on every
// node, if only an empty one. (Without it the kubelet panics on a pod that asks for the size.)
func pageSizes(nodes []NumaNodeSpec) ([]int64, error) {
	sizes := map[int64]bool{2 << 20: true, 1 << 30: true} // x86-64 has these at least
	for _, node := range nodes {
		for name := range node.Amounts {
			text, isHugepages := strings.CutPrefix(name, v1.ResourceHugePagesPrefix)
			if !isHugepages {
				continue
			}
			size, err := resource.ParseQuantity(text)
			if err != nil || size.Value() < 1024 {
				return nil, fmt.Errorf("%s: not a page size", name)
			}
			sizes[size.Value()] = true
		}
	}
	return slices.Sorted(maps.Keys(sizes)), nil
}

func addMemory(node *cadvisorapi.Node, amounts map[string]resource.Quantity, sizes []int64) error {
	bytes := map[string]int64{}
	for name, quantity := range amounts {
		if name != string(v1.ResourceMemory) && !strings.HasPrefix(name, v1.ResourceHugePagesPrefix) {
			return fmt.Errorf("unknown key %q of a NUMA node", name)
		}
		bytes[name] = quantity.Value()
	}
	node.Memory = uint64(bytes[string(v1.ResourceMemory)])
	for _, size := range sizes {
		name := helper.HugePageResourceName(*resource.NewQuantity(size, resource.BinarySI))
		node.HugePages = append(node.HugePages, cadvisorapi.HugePagesInfo{
			PageSize: uint64(size / 1024), NumPages: uint64(bytes[string(name)] / size),
		})
	}
	return nil
}
