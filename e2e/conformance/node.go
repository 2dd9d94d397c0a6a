package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newDeviceManager is NewManagerImpl with a socket path: the exported one would write its checkpoint
// into the machine's own /var/lib/kubelet/device-plugins.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(
	klog.Logger, string, []cadvisorapi.Node, topologymanager.Store,
) (*devicemanager.ManagerImpl, error)

// The reconcile loop of the CPU manager has no end of its own; see leaveReconcileLoop.
const never = 1000 * time.Hour

// node is a kubelet's managers on one machine.
type node struct {
	dir      string
	machine  *cadvisorapi.MachineInfo
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	devices  *devicemanager.ManagerImpl
	plugins  map[string]*fakePlugin
	pods     []*v1.Pod // the active ones, the one under admission among them
	refused  map[string]bool
}

// newNode makes the managers as container_manager_linux.go does, in its order, and starts them. With an
// error, the node is there to be stopped.
func newNode(ctx context.Context, machine *cadvisorapi.MachineInfo, config *settings, dir string) (*node, error) {
	logger := klog.FromContext(ctx)
	n := &node{machine: machine, dir: dir, plugins: map[string]*fakePlugin{}, refused: map[string]bool{}}
	var err error
	if n.topology, err = topologymanager.NewManager(logger, machine.Topology, config.TopologyManagerPolicy,
		config.TopologyManagerScope, config.TopologyManagerPolicyOptions); err != nil {
		return n, err
	}
	socket := filepath.Join(dir, "device-plugins", "kubelet.sock")
	if n.devices, err = newDeviceManager(logger, socket, machine.Topology, n.topology); err != nil {
		return n, err
	}
	n.topology.AddHintProvider(logger, n.devices)
	if n.cpu, err = cpumanager.NewManager(logger, config.CPUManagerPolicy, config.CPUManagerPolicyOptions, never,
		machine, config.reservedCPUs, config.reservation, dir, n.topology); err != nil {
		return n, err
	}
	n.topology.AddHintProvider(logger, n.cpu)
	if n.memory, err = memorymanager.NewManager(logger, config.MemoryManagerPolicy, machine, config.reservation,
		config.ReservedMemory, dir, n.topology); err != nil {
		return n, err
	}
	n.topology.AddHintProvider(logger, n.memory)
	return n, n.start(ctx, config)
}

func (n *node) start(ctx context.Context, config *settings) error {
	active := func() []*v1.Pod { return n.pods }
	cpuActive, left := active, make(<-chan struct{})
	loops := config.CPUManagerPolicy == string(cpumanager.PolicyStatic)
	if loops {
		cpuActive, left = leaveReconcileLoop(active)
	}
	if err := n.cpu.Start(ctx, cpuActive, ready{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return err
	}
	if loops {
		<-left
	}
	if err := n.memory.Start(ctx, active, ready{}, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return err
	}
	return n.devices.Start(klog.FromContext(ctx), active, ready{}, containermap.NewContainerMap(), sets.New[string]())
}

// stop also takes a node that could not be made whole.
func (n *node) stop(ctx context.Context) {
	if n.devices != nil {
		_ = n.devices.Stop(klog.FromContext(ctx))
	}
	_ = os.RemoveAll(n.dir)
}

// leaveReconcileLoop wraps the list of active pods such that its first caller, which is the CPU
// manager's reconcile goroutine, ends there; the channel is closed then. Thousands of nodes in one
// process would otherwise all be kept alive by their loops. Nothing is lost: the loop only applies
// cpusets to running containers, and stale state is also removed before each allocation.
func leaveReconcileLoop(active func() []*v1.Pod) (func() []*v1.Pod, <-chan struct{}) {
	var called atomic.Bool
	left := make(chan struct{})
	return func() []*v1.Pod {
		if called.CompareAndSwap(false, true) {
			close(left)
			runtime.Goexit()
		}
		return active()
	}, left
}

// addDevices connects one plugin for each resource and delivers its list.
func (n *node) addDevices(ctx context.Context, specs []DevicesSpec, preference string) error {
	for _, spec := range specs {
		p := n.plugins[spec.Resource]
		if p == nil {
			p = &fakePlugin{
				resource: spec.Resource, preference: preference,
				devices: map[string]*pluginapi.Device{}, chances: map[string]determined{},
			}
			n.plugins[spec.Resource] = p
		}
		var topology *pluginapi.TopologyInfo
		for _, id := range spec.NUMA {
			if topology == nil {
				topology = &pluginapi.TopologyInfo{}
			}
			topology.Nodes = append(topology.Nodes, &pluginapi.NUMANode{ID: id})
		}
		for _, id := range spec.IDs {
			if _, twice := p.devices[id]; twice {
				return fmt.Errorf("%s has device %q twice", spec.Resource, id)
			}
			p.devices[id] = &pluginapi.Device{ID: id, Health: pluginapi.Healthy, Topology: topology}
			p.order = append(p.order, id)
		}
	}
	for _, name := range sortedKeys(n.plugins) {
		if err := n.devices.PluginConnected(ctx, name, n.plugins[name]); err != nil {
			return err
		}
		n.devices.PluginListAndWatchReceiver(klog.FromContext(ctx), name, n.plugins[name].list())
	}
	return nil
}

// ready: all sources of pods have been seen, so that the managers drop what absent pods held.
type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
