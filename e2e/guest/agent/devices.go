package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Numbers of Linux vfio.h and drm.h.
const (
	vfioGroupGetStatus    = ';'<<8 | (100 + 3)
	vfioGroupSetContainer = ';'<<8 | (100 + 4)
	vfioGroupGetDeviceFd  = ';'<<8 | (100 + 6)
	vfioSetIommu          = ';'<<8 | (100 + 2)
	vfioDeviceGetInfo     = ';'<<8 | (100 + 7)
	vfioDeviceGetRegion   = ';'<<8 | (100 + 8)
	vfioType1             = 1
	vfioGroupViable       = 1
	vfioPciConfigRegion   = 7
	drmIoctlVersion       = 0xc0406400
)

func ioctl(file *os.File, request uintptr, argument uintptr) (uintptr, error) {
	result, _, number := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, argument)
	if number != 0 {
		return 0, number
	}
	return result, nil
}

// openFunction takes a PCI function over as a userspace driver does, up to reading its configuration space.
func openFunction(group, address string) (vfio, []*os.File, error) {
	var result vfio
	container, err := os.OpenFile("/dev/vfio/vfio", os.O_RDWR, 0)
	if err != nil {
		return result, nil, err
	}
	files := []*os.File{container}
	member, err := os.OpenFile(group, os.O_RDWR, 0)
	if err != nil {
		return result, files, err
	}
	files = append(files, member)
	status := struct{ size, flags uint32 }{size: 8}
	if _, err := ioctl(member, vfioGroupGetStatus, uintptr(unsafe.Pointer(&status))); err != nil {
		return result, files, fmt.Errorf("group status: %w", err)
	}
	if status.flags&vfioGroupViable == 0 {
		return result, files, fmt.Errorf("the group is not viable: %#x", status.flags)
	}
	number := int32(container.Fd())
	if _, err := ioctl(member, vfioGroupSetContainer, uintptr(unsafe.Pointer(&number))); err != nil {
		return result, files, fmt.Errorf("set container: %w", err)
	}
	if _, err := ioctl(container, vfioSetIommu, vfioType1); err != nil {
		return result, files, fmt.Errorf("set IOMMU: %w", err)
	}
	name := append([]byte(address), 0)
	descriptor, err := ioctl(member, vfioGroupGetDeviceFd, uintptr(unsafe.Pointer(&name[0])))
	if err != nil {
		return result, files, fmt.Errorf("device: %w", err)
	}
	device := os.NewFile(descriptor, address)
	files = append(files, device)
	info := struct{ size, flags, regions, irqs, caps, pad uint32 }{size: 24}
	if _, err := ioctl(device, vfioDeviceGetInfo, uintptr(unsafe.Pointer(&info))); err != nil {
		return result, files, fmt.Errorf("device info: %w", err)
	}
	result.Regions = info.regions
	region := struct {
		size, flags, index, caps uint32
		length, offset           uint64
	}{size: 32, index: vfioPciConfigRegion}
	if _, err := ioctl(device, vfioDeviceGetRegion, uintptr(unsafe.Pointer(&region))); err != nil {
		return result, files, fmt.Errorf("configuration space: %w", err)
	}
	ids := make([]byte, 4)
	if _, err := device.ReadAt(ids, int64(region.offset)); err != nil {
		return result, files, fmt.Errorf("configuration space: %w", err)
	}
	result.Vendor = fmt.Sprintf("%04x", binary.LittleEndian.Uint16(ids))
	result.Device = fmt.Sprintf("%04x", binary.LittleEndian.Uint16(ids[2:]))
	return result, files, nil
}

// drmDriver opens a DRM node and returns the name of the driver behind it.
func drmDriver(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	name := make([]byte, 64)
	version := struct {
		major, minor, patch int32
		_                   int32
		nameLength          uint64
		name                unsafe.Pointer
		rest                [4]uint64
	}{nameLength: uint64(len(name)), name: unsafe.Pointer(&name[0])}
	if _, err := ioctl(file, drmIoctlVersion, uintptr(unsafe.Pointer(&version))); err != nil {
		return "", err
	}
	return string(bytes.TrimRight(name[:min(version.nameLength, uint64(len(name)))], "\x00")), nil
}
