package main

import (
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// determined says how much of a device choice follows from the scenario; the rest is Go's map order.
type determined string

const (
	idsDetermined  determined = ""     // the ids
	numaDetermined determined = "numa" // the NUMA nodes of the devices, and their number
	onlyNumber     determined = "number"
)

// judge tells what is left to chance when the kubelet has asked for a preference and got none. It is
// strict: a choice among devices of differing NUMA nodes counts as chance even where the kubelet
// takes the aligned ones first.
func (p *fakePlugin) judge(asked *pluginapi.ContainerPreferredAllocationRequest) determined {
	candidates := slices.DeleteFunc(slices.Clone(asked.AvailableDeviceIDs), func(id string) bool {
		return slices.Contains(asked.MustIncludeDeviceIDs, id)
	})
	return p.choiceAmong(candidates, int(asked.AllocationSize)-len(asked.MustIncludeDeviceIDs))
}

func (p *fakePlugin) choiceAmong(candidates []string, needed int) determined {
	if needed == 0 || needed >= len(candidates) {
		return idsDetermined
	}
	for _, id := range candidates[1:] {
		if !slices.Equal(p.nodesOf(id), p.nodesOf(candidates[0])) {
			return onlyNumber
		}
	}
	return numaDetermined
}

// reuse follows devicesToReuse of the device manager: an init container's devices are taken by the
// containers after it, without asking the plugin, and in map order if there are more than needed.
type reuse map[string][]string

// take returns what was left to chance when a container got these ids of a resource, and whether
// chance gave it the lowest ones.
func (r reuse) take(p *fakePlugin, ids []string) (determined, bool) {
	reusable := naturallySorted(r[p.resource])
	choice := p.choiceAmong(reusable, len(ids))
	lowest := choice == idsDetermined || slices.Equal(reusable[:len(ids)], naturallySorted(ids))
	return choice, lowest
}

func (r reuse) add(resource string, ids []string) {
	for _, id := range ids {
		if !slices.Contains(r[resource], id) {
			r[resource] = append(r[resource], id)
		}
	}
}

func (r reuse) remove(resource string, ids []string) {
	r[resource] = slices.DeleteFunc(r[resource], func(id string) bool { return slices.Contains(ids, id) })
}

func keyOf(ids []string) string {
	return strings.Join(naturallySorted(ids), "\x00")
}
