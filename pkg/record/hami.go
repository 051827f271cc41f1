package record

import (
	"encoding/json"
	"math/bits"
	"strings"
)

// The keys that HAMi's device plugin reads (pkg/util/types.go and pkg/device/nvidia in Project-HAMi/HAMi, v2.10).
const (
	hamiNode       = "hami.io/vgpu-node"
	hamiTime       = "hami.io/vgpu-time"
	hamiPhase      = "hami.io/bind-phase"
	hamiBindTime   = "hami.io/bind-time"
	hamiToAllocate = "hami.io/vgpu-devices-to-allocate"
	hamiAllocated  = "hami.io/vgpu-devices-allocated"
	hamiMIG        = "hami.io/vgpu-mig-allocations"
)

// phaseAllocating says that the agent has not served the pod yet; the agent sets it to "success".
const phaseAllocating = "allocating"

type hamiInstance struct {
	ContainerIndex int           `json:"containerIndex"`
	DeviceIndex    int           `json:"deviceIndex"`
	GPUUUID        string        `json:"gpuUUID"`
	Profile        string        `json:"profile"`
	Placement      hamiPlacement `json:"placement"`
}

type hamiPlacement struct {
	Start int `json:"start"`
	Size  int `json:"size"`
}

// writeHAMi writes for HAMi's device plugin. When the kubelet asks it for devices, it looks for a pending pod of its node in
// bind-phase "allocating", takes the first container in devices-to-allocate that still has devices, and erases it: the
// kubelet asks for init containers first and then for app containers, each in the order of the spec. So the value has a slot
// for every one of them, in that order, each ended by ";" and empty where there is nothing; the index of a slot is how the
// plugin finds the container. It ends a slot's device by ":" and reads memory in MiB and compute in percent.
//
// An instance of a card in MIG mode stands in its slot with the card's UUID, and in vgpu-mig-allocations by profile and memory
// slices; that list's UUID of the instance and its IDs are for the plugin to fill in, all or none.
//
// The plugin picks among several pending pods by HAMi's node lock, which is not part of a Binding: without the lock it takes the
// first pod that it finds.
func writeHAMi(w *writing) error {
	slots, err := w.slots(true)
	if err != nil {
		return err
	}
	var value strings.Builder
	var instances []hamiInstance
	for i, held := range slots {
		devices, err := w.devices(held)
		if err != nil {
			return err
		}
		value.WriteString(devices)
		value.WriteByte(';')
		for j := range held {
			if s := &held[j]; s.MIGProfile != "" {
				instances = append(instances, hamiInstance{
					ContainerIndex: i, DeviceIndex: j, GPUUUID: s.UUID, Profile: s.MIGProfile,
					Placement: hamiPlacement{Start: bits.TrailingZeros64(s.SliceMask), Size: bits.OnesCount64(s.SliceMask)},
				})
			}
		}
	}
	w.out[hamiNode], w.out[hamiPhase] = w.node, phaseAllocating
	w.out[hamiTime], w.out[hamiBindTime] = unix(w.options.Now), unix(w.options.Now)
	w.out[hamiToAllocate], w.out[hamiAllocated] = value.String(), value.String()
	if len(instances) > 0 {
		list, err := json.Marshal(instances)
		if err != nil {
			return w.fail("%v", err)
		}
		w.out[hamiMIG] = string(list)
	}
	return nil
}
