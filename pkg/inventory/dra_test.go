package inventory

import (
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func without(attribute string) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) { delete(d.Attributes, resourcev1.QualifiedName(attribute)) }
}

func attribute(name, value string) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		d.Attributes[resourcev1.QualifiedName(name)] = resourcev1.DeviceAttribute{StringValue: &value}
	}
}

func memory(value string) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		d.Capacity["memory"] = resourcev1.DeviceCapacity{Value: resource.MustParse(value)}
	}
}

func named(name string) func(*resourcev1.Device) { return func(d *resourcev1.Device) { d.Name = name } }

type sliceList = []*resourcev1.ResourceSlice

func TestDRA(t *testing.T) {
	one := func(d ...resourcev1.Device) sliceList { return sliceList{draSlice("a", 1, 1, d...)} }
	foreign := draSlice("a", 1, 1, draGPU(0))
	foreign.Spec.Driver = "gpu.example.com"
	elsewhere := draSlice("a", 1, 1, draGPU(0))
	elsewhere.Spec.NodeName = new("n2")
	everywhere := draSlice("a", 1, 1, draGPU(0))
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, new(true)
	tests := map[string]struct {
		slices      sliceList
		wantUsable  string
		wantCards   int
		wantProblem []string
	}{
		"eight cards in two slices": {slices: dra8(), wantUsable: "{0,1,2,3,4,5,6,7}", wantCards: 8},
		"no slices":                 {wantUsable: "none"},
		"another driver":            {slices: sliceList{foreign, nil}, wantUsable: "none"},
		"another node":              {slices: sliceList{elsewhere, everywhere}, wantUsable: "none"},
		"slice missing":             {slices: dra8()[:1], wantUsable: "{}", wantCards: 4, wantProblem: []string{`pool n1: "1 of 2"`}},
		"older generation ignored": {
			slices:     sliceList{draSlice("a", 3, 1, draGPU(0), draGPU(1)), draSlice("b", 2, 1, draGPU(2))},
			wantUsable: "{0,1}", wantCards: 2,
		},
		"newer generation not all there": {
			slices:     sliceList{draSlice("a", 3, 2, draGPU(0)), draSlice("b", 2, 2, draGPU(1)), draSlice("c", 2, 2, draGPU(2))},
			wantUsable: "{}", wantCards: 1, wantProblem: []string{"slices of generation 3"},
		},
		"more slices than said": {
			slices:     sliceList{draSlice("a", 1, 1, draGPU(0)), draSlice("b", 1, 1, draGPU(1))},
			wantUsable: "{}", wantCards: 2, wantProblem: []string{`"2 of 1"`},
		},
		"NoSchedule": {slices: dra8(func(d *resourcev1.Device) {
			if d.Name == "gpu-3" {
				taint(resourcev1.DeviceTaintEffectNoSchedule)(d)
			}
		}), wantUsable: "{0,1,2,4,5,6,7}", wantCards: 8},
		"NoExecute":      {slices: one(draGPU(0, taint(resourcev1.DeviceTaintEffectNoExecute)), draGPU(1)), wantUsable: "{1}", wantCards: 2},
		"None":           {slices: one(draGPU(0, taint(resourcev1.DeviceTaintEffectNone))), wantUsable: "{0}", wantCards: 1},
		"unknown effect": {slices: one(draGPU(0, taint("Later"))), wantUsable: "{0}", wantCards: 1},
		"card fell off the bus": {
			slices:     one(draGPU(0), draGPU(2)),
			wantUsable: "{0,2}", wantCards: 3,
		},
		"no memory":      {slices: one(draGPU(0, func(d *resourcev1.Device) { d.Capacity = nil })), wantUsable: "{0}", wantCards: 1},
		"memory of 0":    {slices: one(draGPU(0, memory("0")), draGPU(1)), wantUsable: "{1}", wantCards: 2, wantProblem: []string{`gpu-0.memory: "0"`}},
		"memory below 0": {slices: one(draGPU(0, memory("-80Gi")), draGPU(1)), wantUsable: "{1}", wantCards: 2, wantProblem: []string{"gpu-0.memory"}},
		"memory beyond":  {slices: one(draGPU(0, memory("1e30")), draGPU(1)), wantUsable: "{1}", wantCards: 2, wantProblem: []string{"gpu-0.memory"}},
		"one UUID twice": {slices: one(draGPU(0), draGPU(1, attribute("uuid", uuid(0)))), wantUsable: "{}", wantCards: 2, wantProblem: []string{"cards[0]", "cards[1]"}},
		"one minor twice": {
			slices:     one(draGPU(0), draGPU(1, named("gpu-0"))),
			wantUsable: "none", wantProblem: []string{`index: "0"`},
		},
		"minor beyond":   {slices: one(draGPU(0), draGPU(64)), wantUsable: "none", wantProblem: []string{`index: "64"`}},
		"name":           {slices: one(draGPU(0), draGPU(1, named("card-1")), draGPU(2, named("gpu-")), draGPU(3, named("gpu-3x"))), wantUsable: "{0}", wantCards: 1, wantProblem: []string{"card-1", `"gpu-"`, "gpu-3x"}},
		"type missing":   {slices: one(draGPU(0), draGPU(1, without("type"))), wantUsable: "{0}", wantCards: 1, wantProblem: []string{"gpu-1.type"}},
		"vfio":           {slices: one(draGPU(0), draGPU(1, named("gpu-vfio-1"), attribute("type", "vfio"))), wantUsable: "{0}", wantCards: 1},
		"domain spelled": {slices: one(draGPU(0, without("type"), attribute("gpu.nvidia.com/type", "gpu"))), wantUsable: "{0}", wantCards: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, nil, nil), tt.slices, Options{})
			if usable(res) != tt.wantUsable || (res.Topology != nil && res.Topology.Len() != tt.wantCards) {
				t.Errorf("usable cards are %s, want %s of %d\n%s", usable(res), tt.wantUsable, tt.wantCards, dump(res))
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}

func TestDRALinks(t *testing.T) {
	root := func(names ...string) sliceList {
		var devices []resourcev1.Device
		for i, name := range names {
			d := draGPU(i, attribute("productName", "Foo 1"), attribute("resource.kubernetes.io/pcieRoot", name))
			if name == "" {
				without("resource.kubernetes.io/pcieRoot")(&d)
			}
			devices = append(devices, d)
		}
		return sliceList{draSlice("a", 1, 1, devices...)}
	}
	tests := map[string]struct {
		slices   sliceList
		wantRow0 string
	}{
		"machine of the catalogue": {slices: dra8(), wantRow0: "[X NV18 NV18 NV18 NV18 NV18 NV18 NV18]"},
		"by root":                  {slices: root("pci0000:10", "pci0000:10", "pci0000:20", ""), wantRow0: "[X PHB SYS ?]"},
		"one card hidden":          {slices: sliceList{draSlice("a", 1, 1, draGPU(0), draGPU(2))}, wantRow0: "[X ? SYS]"},
		"machine of the catalogue that is not uniform": {
			slices:   dra8(attribute("productName", "NVIDIA L40S"), attribute("resource.kubernetes.io/pcieRoot", "pci0000:10")),
			wantRow0: "[X PHB PHB PHB PHB PHB PHB PHB]",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, nil, nil), tt.slices, Options{})
			var row []string
			for j := range res.Topology.Len() {
				row = append(row, res.Topology.Link(0, j).String())
			}
			if got := fmt.Sprint(row); got != tt.wantRow0 {
				t.Errorf("links of card 0 are %s, want %s", got, tt.wantRow0)
			}
		})
	}
}

func TestDRAMIG(t *testing.T) {
	one := func(d ...resourcev1.Device) sliceList { return sliceList{draSlice("a", 1, 1, d...)} }
	tests := map[string]struct {
		slices      sliceList
		want        string // instances of card 1, or its fault
		wantProblem []string
	}{
		"instances of a card that is not listed": {
			slices: one(draGPU(0), draMIG(1, "3g.40gb", 4, 4), draMIG(1, "1g.10gb", 0, 1)), want: "1g.10gb@0+1 3g.40gb@4+4",
		},
		"instances of a card that is": {slices: one(draGPU(0), draGPU(1), draMIG(1, "1g.10gb+me", 6, 1)), want: "1g.10gb+me@6+1"},
		"tainted instance": {
			slices: one(draGPU(0), draMIG(1, "1g.10gb", 0, 1, taint(resourcev1.DeviceTaintEffectNoExecute)), draMIG(1, "1g.10gb", 1, 1)), want: "1g.10gb@1+1",
		},
		"instances that could be made": {slices: one(draGPU(0), draGPU(1), draMIG(1, "1g.10gb", 0, 1, without("uuid"))), want: "not in MIG mode"},
		"overlap":                      {slices: one(draGPU(0), draMIG(1, "1g.10gb", 0, 1), draMIG(1, "2g.20gb", 0, 2)), want: "MIG instance 1 overlaps another", wantProblem: []string{"cards[1]"}},
		"slices are no range": {
			slices: one(draGPU(0), draMIG(1, "2g.20gb", 0, 1, func(d *resourcev1.Device) { d.Capacity["memorySlice3"] = d.Capacity["memorySlice0"] })),
			want:   "", wantProblem: []string{"memory slices {0,3} are no range"},
		},
		"no slices":      {slices: one(draGPU(0), draMIG(1, "1g.10gb", 0, 0)), want: "", wantProblem: []string{"memory slices {} are no range"}},
		"no profile":     {slices: one(draGPU(0), draMIG(1, "1g.10gb", 0, 1, without("profile"))), want: "", wantProblem: []string{"has no profile"}},
		"no parent":      {slices: one(draGPU(0), draGPU(1), draMIG(1, "1g.10gb", 0, 1, without("parentUUID"))), want: "not in MIG mode", wantProblem: []string{"has no parentUUID"}},
		"pool has holes": {slices: sliceList{draSlice("a", 1, 2, draGPU(0), draMIG(1, "1g.10gb", 0, 1))}, want: faultIncomplete, wantProblem: []string{"1 of 2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, nil, nil), tt.slices, Options{})
			if res.Topology == nil || res.Topology.Len() != 2 {
				t.Fatalf("not two cards:\n%s", dump(res))
			}
			c := res.Topology.Card(1)
			got := ""
			for i, m := range c.MIG {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprintf("%s@%d+%d", m.Profile, m.Start, m.Size)
			}
			switch {
			case c.Fault != "":
				got = c.Fault
			case !c.MIGEnabled:
				got = "not in MIG mode"
			}
			if got != tt.want {
				t.Errorf("card 1 has %q, want %q", got, tt.want)
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}
