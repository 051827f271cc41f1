package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	schedulerName = "gpu-topology-scheduler"
	groupLabel    = "scheduling.x-k8s.io/pod-group"
	jobLabel      = "chaos/job"
	vramCardsKey  = "gputopology.io/vram-cards"
	mib           = int64(1) << 20
)

// pod is one pod of a job.
func (r *running) pod(name string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{jobLabel: r.name}, Annotations: map[string]string{},
		},
		Spec: v1.PodSpec{SchedulerName: schedulerName, TerminationGracePeriodSeconds: new(int64)},
	}
	*p.Spec.TerminationGracePeriodSeconds = 30 // the kubelet of this test is done sooner
	if r.size > 0 {
		p.Labels[groupLabel] = r.name
	}
	resources := v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(r.cards), resource.DecimalSI)}
	if r.mib > 0 {
		resources = v1.ResourceList{"gputopology.io/vram": *resource.NewQuantity(r.mib*mib, resource.DecimalSI)}
		p.Annotations[vramCardsKey] = strconv.Itoa(r.cards)
	}
	p.Spec.Containers = []v1.Container{{
		Name: "main", Image: "pause", Resources: v1.ResourceRequirements{Requests: resources, Limits: resources},
	}}
	return p
}

func owner(pod *v1.Pod) string { return pod.Labels[jobLabel] }

// node is a machine as its node object.
func (m *machine) node() *v1.Node {
	type card struct {
		UUID      string `json:"uuid"`
		VRAMBytes int64  `json:"vramBytes"`
		Healthy   bool   `json:"healthy"`
	}
	described := struct {
		Version  int      `json:"v"`
		Cards    []card   `json:"cards"`
		Links    []string `json:"links"`
		NVSwitch bool     `json:"nvswitch,omitempty"`
	}{Version: 1}
	for i := range m.cards {
		if !slices.Contains(m.gone, i) {
			described.Cards = append(described.Cards, card{m.uuid(i), m.mib * mib, !slices.Contains(m.sick, i)})
		}
	}
	for i := range described.Cards {
		row := slices.Repeat([]string{"NV18"}, len(described.Cards))
		row[i] = "X"
		described.Links = append(described.Links, strings.Join(row, " "))
	}
	text, err := json.Marshal(described)
	if err != nil {
		panic(err)
	}
	offered := max(m.cards-len(m.gone)-m.withheld, 0)
	allocatable := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("128"), v1.ResourceMemory: resource.MustParse("1Ti"), v1.ResourcePods: resource.MustParse("500"),
		"nvidia.com/gpu": *resource.NewQuantity(int64(offered), resource.DecimalSI),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.name, Labels: map[string]string{v1.LabelHostname: m.name}, Annotations: map[string]string{"gputopology.io/topology": string(text)},
		},
		Status: v1.NodeStatus{
			Capacity: allocatable, Allocatable: maps.Clone(allocatable),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// uuid names card i as long as the machine is the same.
func (m *machine) uuid(i int) string { return fmt.Sprintf("GPU-%s-%d-%d", m.name, m.series, i) }

// cardsIn finds the UUIDs in a record, also in a damaged one.
func cardsIn(record string) []string {
	var uuids []string
	for _, part := range strings.Split(record, `"`) {
		if strings.HasPrefix(part, "GPU-") && !slices.Contains(uuids, part) {
			uuids = append(uuids, part)
		}
	}
	return uuids
}

// damaged returns the JSON of the annotation that stands for a damaged record; false where that way needs another one.
func damaged(record, how string) (string, bool) {
	var r map[string]any
	if json.Unmarshal([]byte(record), &r) != nil {
		return "", false // damaged before
	}
	cards, ok := r["cards"].([]any)
	if !ok {
		return "", false
	}
	switch how {
	case "removed":
		return "null", true
	case "garbage":
		return strconv.Quote("{\"v\":1,\"cards\":"), true
	case "other version":
		r["v"] = 2
	case "other node":
		r["node"] = "elsewhere"
	case "too few cards":
		if len(cards) < 2 {
			return "", false
		}
		r["cards"] = cards[:len(cards)/2]
	case "unknown cards":
		for i := range cards {
			if card, ok := cards[i].(map[string]any); ok {
				card["uuid"] = fmt.Sprintf("%v-renamed", card["uuid"])
			}
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", false
	}
	return strconv.Quote(string(text)), true
}
