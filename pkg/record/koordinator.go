package record

import (
	"encoding/json"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// The keys that koordlet reads (apis/extension/device_share.go and pkg/scheduler/plugins/deviceshare in
// koordinator-sh/koordinator).
const (
	koordinatorAllocated = "scheduling.koordinator.sh/device-allocated"
	koordinatorMinors    = "scheduling.koordinator.sh/gpu-minors"
	koordinatorTime      = "scheduling.koordinator.sh/bind-timestamp"

	koordinatorCore   = "koordinator.sh/gpu-core"
	koordinatorMemory = "koordinator.sh/gpu-memory"
	koordinatorRatio  = "koordinator.sh/gpu-memory-ratio"
)

type koordinatorDevice struct {
	Minor     int               `json:"minor"`
	Resources map[string]string `json:"resources"`
	ID        string            `json:"id,omitempty"`
}

// writeKoordinator writes for koordlet's GPU hook. It sets NVIDIA_VISIBLE_DEVICES of every container of the pod to the minors of
// device-allocated, which the NVIDIA runtime reads as card indices; with the pod label koordinator.sh/gpu-isolation-provider
// it also limits memory and compute, by the first device's resources. The format has one list for the pod: all its containers
// see all its cards. A memory ratio, in percent, is needed for those limits; it is left out where the card's size is unknown.
// Compute without a promise is left out too: there it means no limit.
func writeKoordinator(w *writing) error {
	devices := make([]koordinatorDevice, 0, len(w.choice.Cards))
	minors := make([]string, 0, len(w.choice.Cards))
	for i := range w.choice.Cards {
		s := &w.choice.Cards[i]
		d := koordinatorDevice{Minor: s.Index, ID: s.UUID, Resources: map[string]string{}}
		if core := percent(s.ComputeMilli); core > 0 {
			d.Resources[koordinatorCore] = strconv.Itoa(int(core))
		}
		if s.VRAMBytes > 0 {
			d.Resources[koordinatorMemory] = resource.NewQuantity(max(s.VRAMBytes/mib, 1)*mib, resource.BinarySI).String()
		}
		if ratio := w.ratio(s); ratio > 0 {
			d.Resources[koordinatorRatio] = strconv.FormatInt(ratio, 10)
		}
		devices = append(devices, d)
		minors = append(minors, strconv.Itoa(s.Index))
	}
	value, err := json.Marshal(map[string][]koordinatorDevice{"gpu": devices})
	if err != nil {
		return w.fail("%v", err)
	}
	w.out[koordinatorAllocated] = string(value)
	w.out[koordinatorMinors] = strings.Join(minors, ",")
	w.out[koordinatorTime] = strconv.FormatInt(w.options.Now.UnixNano(), 10)
	return nil
}

// ratio returns a share's part of its card in percent, 1 to 100, rounded down but not to 0; 0 where it is not known.
func (w *writing) ratio(s *allocate.CardShare) int64 {
	if s.Whole() {
		return 100
	}
	t := w.options.Topology
	if t == nil || s.Index >= t.Len() || t.Card(s.Index).VRAMBytes <= 0 {
		return 0
	}
	return max(min(s.VRAMBytes*100/t.Card(s.Index).VRAMBytes, 100), 1)
}
