package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// report is what a container sees of itself.
type report struct {
	Env     map[string]string `json:"env"`
	Devices []string          `json:"devices"`
	CPUs    string            `json:"cpus"`
	Memory  string            `json:"memory"`
	Vfio    map[string]vfio   `json:"vfio"`
	Opened  map[string]string `json:"opened"`
}

// vfio is what became of opening a PCI function through its IOMMU group.
type vfio struct {
	Problem string `json:"problem"`
	Vendor  string `json:"vendor"`
	Device  string `json:"device"`
	Regions uint32 `json:"regions"`
}

const cgroup = "/sys/fs/cgroup/"

// probe tells on its output, in one line, what it sees, and stays until it is told to end.
func probe() error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	seen := report{
		Env: map[string]string{}, CPUs: read(cgroup + "cpuset.cpus.effective"), Memory: read(cgroup + "cpuset.mems.effective"),
		Vfio: map[string]vfio{}, Opened: map[string]string{},
	}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		seen.Env[name] = value
	}
	_ = filepath.WalkDir("/dev", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeCharDevice != 0 {
			seen.Devices = append(seen.Devices, path)
		}
		return nil
	})
	var opened []*os.File
	for name, text := range seen.Env {
		if strings.HasPrefix(name, "PCIDEVICE_") && strings.HasSuffix(name, "_INFO") {
			opened = append(opened, openAll(text, seen.Vfio)...)
		}
	}
	for _, path := range seen.Devices {
		if strings.HasPrefix(path, "/dev/dri/") {
			name, err := drmDriver(path)
			if err != nil {
				name = "problem: " + err.Error()
			}
			seen.Opened[path] = name
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		return err
	}
	<-asked
	for _, file := range opened {
		file.Close()
	}
	return nil
}

// openAll opens each PCI function that the variable names with an IOMMU group, and keeps it open.
func openAll(text string, results map[string]vfio) []*os.File {
	var functions map[string]map[string]map[string]string
	if err := json.Unmarshal([]byte(text), &functions); err != nil {
		results["?"] = vfio{Problem: err.Error()}
		return nil
	}
	var opened []*os.File
	for address, providers := range functions {
		group := providers["vfio"]["dev-mount"]
		if group == "" {
			continue
		}
		result, files, err := openFunction(group, address)
		if err != nil {
			result.Problem = err.Error()
		}
		results[address] = result
		opened = append(opened, files...)
	}
	return opened
}

func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprint("problem: ", err)
	}
	return strings.TrimSpace(string(content))
}
