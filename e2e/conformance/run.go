package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// errUnlucky ends a run in which the kubelet picked other reusable devices than the lowest.
var errUnlucky = errors.New("the kubelet picked higher ids")

// conform runs a scenario. Where the kubelet picks among reusable devices in map order, it is run
// again until the pick is the lowest, which numaplace takes: one of the kubelet's possible runs.
func conform(request *Request, dir string) *Result {
	for try := 1; ; try++ {
		result, err := attempt(request, dir, try < request.Tries)
		if errors.Is(err, errUnlucky) {
			continue
		}
		result.Tries = try
		if err != nil {
			result.Error = err.Error()
		}
		return result
	}
}

// attempt runs the scenario once on managers of its own. A panic of theirs is an error of the
// scenario: a kubelet would have crashed.
func attempt(request *Request, dir string, choosy bool) (result *Result, err error) {
	result = &Result{Steps: []StepResult{}}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			os.Stderr.Write(debug.Stack())
		}
	}()
	ctx := context.Background()
	n, err := prepare(ctx, request, dir)
	if err != nil {
		return result, err
	}
	defer n.stop(ctx)
	for index, step := range request.Scenario.Steps {
		if err := n.play(ctx, index, &step, choosy, result); err != nil {
			return result, fmt.Errorf("step %d: %w", index, err)
		}
	}
	result.Node = n.usage(ctx)
	return result, nil
}

// prepare makes the scenario's node; its checkpoints are in a folder of its own.
func prepare(ctx context.Context, request *Request, dir string) (*node, error) {
	scenario := &request.Scenario
	if err := scenario.refuse(); err != nil {
		return nil, err
	}
	if err := setFeatureGates(scenario.Kubelet); err != nil {
		return nil, err
	}
	config, err := loadSettings(scenario.Kubelet)
	if err != nil {
		return nil, err
	}
	machine, err := machineInfo(&scenario.Node)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(dir, "n")
	if err != nil {
		return nil, err
	}
	n, err := newNode(ctx, machine, config, scratch)
	if err == nil {
		err = n.addDevices(ctx, scenario.Node.Devices, request.Preference)
	}
	if err != nil {
		n.stop(ctx)
	}
	return n, err
}

func (n *node) play(ctx context.Context, index int, step *StepSpec, choosy bool, result *Result) error {
	switch {
	case step.Create != nil:
		outcome, err := n.create(ctx, index, step.Create, choosy)
		if err == nil {
			result.Steps = append(result.Steps, *outcome)
		}
		return err
	case step.Delete != "":
		return n.delete(ctx, step.Delete)
	case step.Healthy != nil:
		return n.setHealth(ctx, step.Healthy, pluginapi.Healthy)
	case step.Unhealthy != nil:
		return n.setHealth(ctx, step.Unhealthy, pluginapi.Unhealthy)
	case step.Withhold != nil:
		return n.withhold(ctx, step.Withhold)
	default:
		return fmt.Errorf("an empty step")
	}
}

// create admits a pod as kubelet.go's HandlePodAdditions and allocation.AddPod do: it is active while
// it is under admission, and a refused one is Failed and so no longer active.
func (n *node) create(ctx context.Context, index int, spec *PodSpec, choosy bool) (*StepResult, error) {
	if n.find(spec.Name) >= 0 {
		return nil, fmt.Errorf("pod %s runs already", spec.Name)
	}
	pod, err := newPod(spec, index)
	if err != nil {
		return nil, err
	}
	others := slices.Clone(n.pods)
	n.pods = append(others, pod)
	for _, p := range n.plugins {
		clear(p.chances)
	}
	verdict := n.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{
		Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation,
	})
	containers, lucky := n.containers(ctx, pod)
	if choosy && !lucky {
		return nil, errUnlucky
	}
	outcome := &StepResult{
		Step: index, Pod: spec.Name, Admitted: verdict.Admit, Reason: verdict.Reason, Message: verdict.Message,
		Containers: []ContainerResult{},
	}
	if !verdict.Admit {
		n.pods, n.refused[spec.Name] = others, true
		return outcome, nil
	}
	outcome.Containers = containers
	n.startContainers(ctx, pod)
	return outcome, nil
}

// startContainers starts them in order (internal_container_lifecycle.go); an init container that is
// no sidecar has ended, and was removed, before the next one starts.
func (n *node) startContainers(ctx context.Context, pod *v1.Pod) {
	logger := klog.FromContext(ctx)
	for _, container := range inOrder(pod) {
		id := containerID(pod, container.Name)
		n.cpu.AddContainer(logger, pod, &container, id)
		n.memory.AddContainer(logger, pod, &container, id)
		n.topology.AddContainer(logger, pod, &container, id)
	}
	for _, container := range pod.Spec.InitContainers {
		if !podutil.IsRestartableInitContainer(&container) {
			_ = n.topology.RemoveContainer(logger, containerID(pod, container.Name))
		}
	}
}

// delete ends a pod: its containers stop, and it is not active any more. The managers notice before
// they allocate the next time. A refused pod is there to be deleted, but holds nothing.
func (n *node) delete(ctx context.Context, name string) error {
	at := n.find(name)
	if at < 0 {
		if n.refused[name] {
			delete(n.refused, name)
			return nil
		}
		return fmt.Errorf("pod %s does not run", name)
	}
	pod := n.pods[at]
	for _, container := range inOrder(pod) {
		_ = n.topology.RemoveContainer(klog.FromContext(ctx), containerID(pod, container.Name))
	}
	n.pods = slices.Delete(slices.Clone(n.pods), at, at+1)
	return nil
}

func (n *node) setHealth(ctx context.Context, spec *HealthSpec, health string) error {
	p := n.plugins[spec.Resource]
	if p == nil {
		return fmt.Errorf("no resource %s", spec.Resource)
	}
	for _, id := range spec.IDs {
		if !p.setHealth(id, health) {
			return fmt.Errorf("%s has no device %s", spec.Resource, id)
		}
	}
	n.devices.PluginListAndWatchReceiver(klog.FromContext(ctx), spec.Resource, p.list())
	return nil
}

func (n *node) withhold(ctx context.Context, spec *HealthSpec) error {
	p := n.plugins[spec.Resource]
	if p == nil {
		return fmt.Errorf("no resource %s", spec.Resource)
	}
	if err := p.withhold(spec.IDs); err != nil {
		return err
	}
	n.devices.PluginListAndWatchReceiver(klog.FromContext(ctx), spec.Resource, p.list())
	return nil
}

func (n *node) find(name string) int {
	return slices.IndexFunc(n.pods, func(pod *v1.Pod) bool { return pod.Name == name })
}

func containerID(pod *v1.Pod, container string) string {
	return string(pod.UID) + "/" + container
}
