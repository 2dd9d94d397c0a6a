package main

import (
	"fmt"

	"k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
)

// newPod builds the pod that the API server would hand to the kubelet, with its defaults.
func newPod(spec *PodSpec, step int) (*v1.Pod, error) {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace = spec.Name, "default"
	pod.UID = types.UID(fmt.Sprintf("%s-%d", spec.Name, step))
	if spec.Name == "" || len(spec.Containers) == 0 {
		return nil, fmt.Errorf("a pod needs a name and containers")
	}
	names := map[string]bool{}
	for list, specs := range [][]ContainerSpec{spec.InitContainers, spec.Containers} {
		for _, one := range specs {
			if names[one.Name] || one.Name == "" {
				return nil, fmt.Errorf("pod %s: container name %q is empty or not unique", spec.Name, one.Name)
			}
			names[one.Name] = true
			container, err := newContainer(&one, list == 0)
			if err != nil {
				return nil, err
			}
			if list == 0 {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
			} else {
				pod.Spec.Containers = append(pod.Spec.Containers, container)
			}
		}
	}
	if spec.Resources != nil {
		pod.Spec.Resources = resourcesOf(spec.Resources)
	}
	corev1.SetObjectDefaults_Pod(pod)
	return pod, nil
}

func newContainer(spec *ContainerSpec, init bool) (v1.Container, error) {
	container := v1.Container{Name: spec.Name, Image: "none", Resources: *resourcesOf(spec)}
	switch {
	case spec.RestartPolicy == "":
	case init && spec.RestartPolicy == string(v1.ContainerRestartPolicyAlways):
		always := v1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
	default:
		return container, fmt.Errorf("container %s: restartPolicy %q", spec.Name, spec.RestartPolicy)
	}
	return container, nil
}

func resourcesOf(spec *ContainerSpec) *v1.ResourceRequirements {
	return &v1.ResourceRequirements{Requests: listOf(spec.Requests), Limits: listOf(spec.Limits)}
}

func listOf(amounts Amounts) v1.ResourceList {
	list := v1.ResourceList{}
	for name, quantity := range amounts {
		list[v1.ResourceName(name)] = quantity
	}
	return list
}

// inOrder are the pod's containers in the order of their admission, and of their start.
func inOrder(pod *v1.Pod) []v1.Container {
	return append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
}
