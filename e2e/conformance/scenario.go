package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Request is one line of input. Tries bounds how often a scenario is run again until the kubelet's
// arbitrary picks are the lowest ids; 1 takes the first run whatever it picked.
type Request struct {
	Scenario   Scenario `json:"scenario"`
	Preference string   `json:"preference"`
	Tries      int      `json:"tries"`
}

// Scenario is a scenario file. Placement is read only to refuse what a stock kubelet does not do.
type Scenario struct {
	Node      NodeSpec          `json:"node"`
	Kubelet   json.RawMessage   `json:"kubelet"`
	Placement map[string]any    `json:"placement"`
	Allocated []json.RawMessage `json:"allocated"`
	Steps     []StepSpec        `json:"steps"`
}

// NodeSpec is the hardware. Distances are rows in the order of the NUMA node ids, as the kernel's are.
type NodeSpec struct {
	NumaNodes   []NumaNodeSpec `json:"numaNodes"`
	Distances   [][]uint64     `json:"distances"`
	CPUTopology TopologySpec   `json:"cpuTopology"`
	Devices     []DevicesSpec  `json:"devices"`
}

// TopologySpec names CPUs by socket and by uncore cache (id -> list), and the siblings of each core.
type TopologySpec struct {
	Sockets      map[string]string `json:"sockets"`
	UncoreCaches map[string]string `json:"uncoreCaches"`
	Cores        []string          `json:"cores"`
}

// NumaNodeSpec is one NUMA node: {id, cpus, memory, hugepages-<size>...}.
type NumaNodeSpec struct {
	ID      int
	CPUs    string
	Amounts map[string]resource.Quantity
}

// UnmarshalJSON takes every other key as an amount.
func (n *NumaNodeSpec) UnmarshalJSON(data []byte) error {
	fixed := map[string]any{"id": &n.ID, "cpus": &n.CPUs}
	var err error
	n.Amounts, err = splitAmounts(data, fixed)
	return err
}

// DevicesSpec is some devices of one resource on the same NUMA nodes.
type DevicesSpec struct {
	Resource string   `json:"resource"`
	NUMA     NUMAIDs  `json:"numa"`
	IDs      []string `json:"ids"`
	Group    string   `json:"group"`
}

// NUMAIDs is one NUMA node id, a list of them, or null for no topology.
type NUMAIDs []int64

// UnmarshalJSON reads the three forms.
func (n *NUMAIDs) UnmarshalJSON(data []byte) error {
	var one int64
	if string(data) == "null" {
		return nil
	}
	if json.Unmarshal(data, &one) == nil {
		*n = NUMAIDs{one}
		return nil
	}
	return json.Unmarshal(data, (*[]int64)(n))
}

// StepSpec is one step; exactly one of the fields is set. Withhold publishes the named devices of a
// resource without topology, and all its other devices with theirs.
type StepSpec struct {
	Create    *PodSpec    `json:"create"`
	Delete    string      `json:"delete"`
	Healthy   *HealthSpec `json:"healthy"`
	Unhealthy *HealthSpec `json:"unhealthy"`
	Withhold  *HealthSpec `json:"withhold"`
}

// HealthSpec names devices of a resource whose health, or published topology, changes.
type HealthSpec struct {
	Resource string   `json:"resource"`
	IDs      []string `json:"ids"`
}

// PodSpec is a pod. Resources are pod-level ones.
type PodSpec struct {
	Name           string          `json:"name"`
	Containers     []ContainerSpec `json:"containers"`
	InitContainers []ContainerSpec `json:"initContainers"`
	Resources      *ContainerSpec  `json:"resources"`
}

// ContainerSpec has flat amounts (limits = requests), or limits and requests as Kubernetes writes them.
type ContainerSpec struct {
	Name          string
	RestartPolicy string
	Requests      Amounts
	Limits        Amounts
}

// UnmarshalJSON takes every other key as an amount, requested and limited.
func (c *ContainerSpec) UnmarshalJSON(data []byte) error {
	fixed := map[string]any{
		"name": &c.Name, "restartPolicy": &c.RestartPolicy, "requests": &c.Requests, "limits": &c.Limits,
	}
	flat, err := splitAmounts(data, fixed)
	if err != nil || len(flat) == 0 {
		return err
	}
	if c.Requests != nil || c.Limits != nil {
		return fmt.Errorf("container %q mixes amounts with requests or limits", c.Name)
	}
	c.Requests, c.Limits = flat, flat
	return nil
}

// Amounts are quantities by resource name.
type Amounts map[string]resource.Quantity

// UnmarshalJSON reads quantities that may be plain numbers.
func (a *Amounts) UnmarshalJSON(data []byte) error {
	amounts, err := splitAmounts(data, nil)
	*a = amounts
	return err
}

// splitAmounts decodes the fixed keys into their targets and returns all others as quantities.
func splitAmounts(data []byte, fixed map[string]any) (map[string]resource.Quantity, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	amounts := map[string]resource.Quantity{}
	for key, value := range all {
		if target, ok := fixed[key]; ok {
			if err := json.Unmarshal(value, target); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			continue
		}
		quantity, err := resource.ParseQuantity(string(bytes.Trim(value, `"`)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		amounts[key] = quantity
	}
	return amounts, nil
}

func decodeStrictly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// refuse says what a stock kubelet, or this program, does not do.
func (s *Scenario) refuse() error {
	if len(s.Allocated) > 0 {
		return fmt.Errorf("allocated: the kubelet's managers know no anonymous shares; write pods instead")
	}
	switch enforcement := s.Placement["enforcement"]; enforcement {
	case nil, false, "off":
		return nil
	default:
		return fmt.Errorf("placement.enforcement %v: only off is a stock kubelet alone", enforcement)
	}
}
