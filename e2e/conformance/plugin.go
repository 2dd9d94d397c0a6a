package main

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// What the plugin answers to GetPreferredAllocation.
const (
	preferLowest = "lowest" // must-include, then the lowest ids in natural order: every id is determined
	preferNone   = "none"   // nothing, as a plugin without the call: the kubelet picks in map order
)

// fakePlugin is one resource's device plugin in memory: it stands where the kubelet has its gRPC
// client. Like every plugin it is called for one container after the other.
type fakePlugin struct {
	pluginapi.DevicePluginClient // ListAndWatch is never called: the harness delivers the lists

	resource   string
	preference string
	devices    map[string]*pluginapi.Device // as they are, whatever topology is published of them
	order      []string                     // ids as the scenario lists them
	withheld   map[string]bool              // ids that are published without topology

	asked   *pluginapi.ContainerPreferredAllocationRequest // unanswered by an Allocate so far
	chances map[string]determined                          // of the pod under admission, by its ids' key
}

// API, Resource and SocketPath make it a plugin.DevicePlugin of the device manager.
func (p *fakePlugin) API() pluginapi.DevicePluginClient { return p }
func (p *fakePlugin) Resource() string                  { return p.resource }
func (p *fakePlugin) SocketPath() string                { return p.resource + ".sock" }

func (p *fakePlugin) list() *pluginapi.ListAndWatchResponse {
	response := &pluginapi.ListAndWatchResponse{}
	for _, id := range p.order {
		device := p.devices[id]
		if p.withheld[id] {
			device = &pluginapi.Device{ID: id, Health: device.Health}
		}
		response.Devices = append(response.Devices, device)
	}
	return response
}

func (p *fakePlugin) withhold(ids []string) error {
	p.withheld = map[string]bool{}
	for _, id := range ids {
		if p.devices[id] == nil {
			return fmt.Errorf("%s has no device %s", p.resource, id)
		}
		p.withheld[id] = true
	}
	return nil
}

// setHealth replaces the device, since the manager keeps the one that it was given.
func (p *fakePlugin) setHealth(id, health string) bool {
	old, ok := p.devices[id]
	if ok {
		p.devices[id] = &pluginapi.Device{ID: id, Health: health, Topology: old.Topology}
	}
	return ok
}

func (p *fakePlugin) nodesOf(id string) []int {
	nodes := []int{}
	for _, node := range p.devices[id].GetTopology().GetNodes() {
		nodes = append(nodes, int(node.ID))
	}
	slices.Sort(nodes)
	return nodes
}

func (p *fakePlugin) GetDevicePluginOptions(
	context.Context, *pluginapi.Empty, ...grpc.CallOption,
) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p *fakePlugin) GetPreferredAllocation(
	_ context.Context, request *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption,
) (*pluginapi.PreferredAllocationResponse, error) {
	p.asked = request.ContainerRequests[0]
	response := &pluginapi.PreferredAllocationResponse{}
	if p.preference == preferNone {
		return response, nil
	}
	ids := slices.Clone(p.asked.MustIncludeDeviceIDs)
	for _, id := range naturallySorted(p.asked.AvailableDeviceIDs) {
		if len(ids) < int(p.asked.AllocationSize) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	response.ContainerResponses = []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: ids}}
	return response, nil
}

func (p *fakePlugin) Allocate(
	_ context.Context, request *pluginapi.AllocateRequest, _ ...grpc.CallOption,
) (*pluginapi.AllocateResponse, error) {
	if p.asked != nil && p.preference == preferNone {
		p.chances[keyOf(request.ContainerRequests[0].DevicesIds)] = p.judge(p.asked)
	}
	p.asked = nil
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}
