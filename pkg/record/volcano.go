package record

import "strings"

// The keys that volcano-vgpu-device-plugin reads (pkg/scheduler/api/devices/nvidia/vgpu in volcano-sh/volcano writes them).
const (
	volcanoNode       = "volcano.sh/vgpu-node"
	volcanoTime       = "volcano.sh/vgpu-time"
	volcanoPhase      = "volcano.sh/bind-phase"
	volcanoBindTime   = "volcano.sh/bind-time"
	volcanoAssigned   = "volcano.sh/vgpu-ids-new"
	volcanoToAllocate = "volcano.sh/devices-to-allocate"
)

// writeVolcano writes for volcano-vgpu-device-plugin. It works as HAMi's does, but takes the index of a slot for an index into
// spec.containers: a slot of an init container would be read as another container, or past the end. So there are slots for app
// containers only, joined by ";", and init containers with GPUs are refused. Its name of a MIG instance holds an index into
// the plugin's own list of geometries, which is not known here, so MIG is refused too.
func writeVolcano(w *writing) error {
	slots, err := w.slots(false)
	if err != nil {
		return err
	}
	containers := make([]string, len(slots))
	for i, held := range slots {
		if containers[i], err = w.devices(held); err != nil {
			return err
		}
	}
	value := strings.Join(containers, ";")
	w.out[volcanoNode], w.out[volcanoPhase] = w.node, phaseAllocating
	w.out[volcanoTime], w.out[volcanoBindTime] = unix(w.options.Now), unix(w.options.Now)
	w.out[volcanoAssigned], w.out[volcanoToAllocate] = value, value
	return nil
}
