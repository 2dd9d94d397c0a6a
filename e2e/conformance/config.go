package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/utils/cpuset"
)

var configCodecs = newConfigCodecs()

func newConfigCodecs() *serializer.CodecFactory {
	_, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		panic(err)
	}
	return codecs
}

// settings is a kubelet's configuration with what the managers are told of it.
type settings struct {
	*kubeletconfig.KubeletConfiguration
	reservedCPUs cpuset.CPUSet
	reservation  v1.ResourceList // GetNodeAllocatableReservation
}

// loadSettings reads the kubelet section as a kubelet reads its file, defaults and validation
// included. Call it after setFeatureGates.
func loadSettings(section json.RawMessage) (*settings, error) {
	keys := map[string]json.RawMessage{}
	if len(section) > 0 {
		if err := json.Unmarshal(section, &keys); err != nil {
			return nil, err
		}
	}
	_, system := keys["systemReserved"]
	_, kube := keys["kubeReserved"]
	_, eviction := keys["evictionHard"]
	if kube || eviction {
		return nil, fmt.Errorf("kubeReserved and evictionHard are not read here: say it in systemReserved")
	}
	keys["apiVersion"] = json.RawMessage(`"kubelet.config.k8s.io/v1beta1"`)
	keys["kind"] = json.RawMessage(`"KubeletConfiguration"`)
	file, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	object, _, err := configCodecs.UniversalDecoder().Decode(file, nil, nil)
	if err != nil {
		return nil, err
	}
	config, ok := object.(*kubeletconfig.KubeletConfiguration)
	if !ok {
		return nil, fmt.Errorf("the kubelet section is not a KubeletConfiguration")
	}
	config.FailCgroupV1 = false // about the host, which is not the scenario's
	if err := validation.ValidateKubeletConfiguration(config, utilfeature.DefaultFeatureGate); err != nil {
		return nil, err
	}
	return settingsOf(config, system)
}

// settingsOf derives the reservation. A scenario need not say twice what it reserves: without
// systemReserved, the node's reservation is what reservedMemory adds up to, as the Static memory
// manager demands, and reservedSystemCPUs, as in the kubelet's server.go.
func settingsOf(config *kubeletconfig.KubeletConfiguration, systemReserved bool) (*settings, error) {
	result := &settings{KubeletConfiguration: config, reservation: v1.ResourceList{}}
	var err error
	if result.reservedCPUs, err = cpuset.Parse(config.ReservedSystemCPUs); err != nil {
		return nil, err
	}
	for name, text := range config.SystemReserved {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("systemReserved: %s: %w", name, err)
		}
		result.reservation[v1.ResourceName(name)] = quantity
	}
	if !systemReserved {
		for _, one := range config.ReservedMemory {
			for name, quantity := range one.Limits {
				quantity.Add(result.reservation[name])
				result.reservation[name] = quantity
			}
		}
	}
	if number := result.reservedCPUs.Size(); number > 0 {
		result.reservation[v1.ResourceCPU] = resource.MustParse(strconv.Itoa(number))
	}
	return result, nil
}

// pristineGates are the process's gates as the kubelet registers them, before any was set.
var pristineGates = utilfeature.DefaultMutableFeatureGate.DeepCopyAndReset()

// setFeatureGates gives the managers gates with their defaults and the scenario's settings. They are
// exchanged as a whole, since gates that were set cannot all be reset.
func setFeatureGates(section json.RawMessage) error {
	var wanted struct {
		FeatureGates map[string]bool `json:"featureGates"`
	}
	if len(section) > 0 {
		if err := json.Unmarshal(section, &wanted); err != nil {
			return err
		}
	}
	gates := pristineGates.DeepCopyAndReset()
	utilfeature.DefaultMutableFeatureGate, utilfeature.DefaultFeatureGate = gates, gates
	return gates.SetFromMap(wanted.FeatureGates)
}
