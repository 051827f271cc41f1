package inventory

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// topology8 is the annotation of eight healthy cards.
func topology8(t *testing.T) string {
	return annotated(t, n8s(), nil).Annotations[v1alpha1.TopologyAnnotation]
}

func TestKubeletSignal(t *testing.T) {
	sick := n8s()
	sick.Cards[2].Healthy = false
	twoMIG := n8s()
	twoMIG.Cards[6].MIGEnabled, twoMIG.Cards[7].MIGEnabled = true, true
	const volcano = "GPU-x,10,81920,T4,true,hami-core:"
	tests := map[string]struct {
		annotations strs
		status      strs
		slices      sliceList
		wantUsable  string
		wantCount   int
		wantProblem []string
	}{
		"says nothing":    {annotations: annotated(t, n8s(), nil).Annotations, wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: -1},
		"offers all":      {annotations: annotated(t, n8s(), nil).Annotations, status: strs{"nvidia.com/gpu": "8"}, wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: 8},
		"offers some":     {annotations: annotated(t, n8s(), nil).Annotations, status: strs{"nvidia.com/gpu": "6"}, wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: 6, wantProblem: []string{`status.allocatable[nvidia.com/gpu]: "6": the kubelet offers 6 of 8`}},
		"offers more":     {annotations: annotated(t, n8s(), nil).Annotations, status: strs{"nvidia.com/gpu": "80"}, wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: 64},
		"below 0":         {annotations: annotated(t, n8s(), nil).Annotations, status: strs{"nvidia.com/gpu": "-1"}, wantUsable: "{}", wantCount: 0, wantProblem: []string{"is not a count", "offers none of 8"}},
		"a fraction":      {annotations: annotated(t, n8s(), nil).Annotations, status: strs{"nvidia.com/gpu": "1500m"}, wantUsable: "{}", wantCount: 0, wantProblem: []string{"is not a count", "offers none of 8"}},
		"agrees on sick":  {annotations: annotated(t, sick, nil).Annotations, status: strs{"nvidia.com/gpu": "7"}, wantUsable: "{0,1,3,4,5,6,7}", wantCount: 7},
		"MIG beside some": {annotations: annotated(t, twoMIG, nil).Annotations, status: strs{"nvidia.com/gpu": "6"}, wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: 6},
		"MIG beside none": {annotations: annotated(t, twoMIG, nil).Annotations, status: strs{"nvidia.com/gpu": "0"}, wantUsable: "{6,7}", wantCount: 0, wantProblem: []string{"offers none of 6"}},
		"HAMi counts shares": {
			annotations: strs{annotationHAMiRegister: hamiJSON(8, nil)}, status: strs{"nvidia.com/gpu": "70"}, wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: -1,
		},
		"HAMi's agent is dead": {
			annotations: strs{annotationHAMiRegister: hamiJSON(8, nil)}, status: strs{"nvidia.com/gpu": "0"}, wantUsable: "{}", wantCount: 0, wantProblem: []string{"offers none of 8"},
		},
		"annotation on a node of HAMi": {
			annotations: strs{v1alpha1.TopologyAnnotation: topology8(t), annotationHAMiRegister: hamiJSON(8, nil)}, status: strs{"nvidia.com/gpu": "5"},
			wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: -1,
		},
		"Volcano's agent is dead": {
			annotations: strs{annotationVolcanoRegister: volcano}, status: strs{"volcano.sh/vgpu-number": "0", "nvidia.com/gpu": "8"},
			wantUsable: "{}", wantCount: 0, wantProblem: []string{"volcano.sh/vgpu-number"},
		},
		"Volcano, nvidia.com/gpu left over": {
			annotations: strs{annotationVolcanoRegister: volcano}, status: strs{"volcano.sh/vgpu-number": "10", "nvidia.com/gpu": "0"},
			wantUsable: "{0}", wantCount: -1,
		},
		"DRA, nvidia.com/gpu left over": {slices: dra8(), status: strs{"nvidia.com/gpu": "0"}, wantUsable: "{0,1,2,3,4,5,6,7}", wantCount: -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(tt.annotations, nil, tt.status), tt.slices, Options{})
			if usable(res) != tt.wantUsable || res.Allocatable != tt.wantCount {
				t.Errorf("got usable %s, allocatable %d; want %s, %d", usable(res), res.Allocatable, tt.wantUsable, tt.wantCount)
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}

func TestCaseB150DeviceAgentDead(t *testing.T) {
	dead := Resolve(annotated(t, n8s(), strs{"nvidia.com/gpu": "0"}), nil, Options{})
	if got := usable(dead); got != "{}" {
		t.Errorf("usable cards are %s", got)
	}
	if got, want := dead.Topology.Card(3).Fault, "kubelet offers 0 of 8 nvidia.com/gpu"; got != want {
		t.Errorf("fault is %q, want %q", got, want)
	}
	if dead.Topology.IndexOf(uuid(3)) != 3 {
		t.Error("the cards are not listed any more")
	}
	back := Resolve(annotated(t, n8s(), strs{"nvidia.com/gpu": "8"}), nil, Options{})
	if got := usable(back); got != "{0,1,2,3,4,5,6,7}" {
		t.Errorf("usable cards after recovery are %s", got)
	}
}

func TestCaseB094SickCardInUse(t *testing.T) {
	spec := n8s()
	spec.Cards, spec.NVSwitch = spec.Cards[:2], false
	spec.Cards[0].Healthy = false
	res := Resolve(annotated(t, spec, strs{"nvidia.com/gpu": "1"}), nil, Options{})
	if usable(res) != "{1}" || res.Allocatable != 1 {
		t.Errorf("got usable %s, allocatable %d; want {1}, 1", usable(res), res.Allocatable)
	}
	wantProblems(t, res.Problems)
}

// TestHealthOfWeakerSources checks that a card is closed by whoever calls it sick, whichever source describes the node.
func TestHealthOfWeakerSources(t *testing.T) {
	sickHAMi := hamiJSON(8, func(i int, e string) string {
		if i == 1 {
			return strings.Replace(e, `"health":true`, `"health":false`, 1)
		}
		return e
	})
	sickDRA := dra8(func(d *resourcev1.Device) {
		if d.Name == "gpu-2" {
			taint(resourcev1.DeviceTaintEffectNoSchedule)(d)
		}
	})
	tests := map[string]struct {
		annotations strs
		labels      strs
		slices      sliceList
		wantSource  string
		wantUsable  string
		wantProblem []string
	}{
		"annotation and all others": {
			annotations: strs{v1alpha1.TopologyAnnotation: topology8(t), annotationHAMiRegister: sickHAMi, annotationCordon: " GPU-5, ,GPU-99",
				annotationVolcanoRegister: "GPU-4,10,1,T4,false,hami-core:"},
			slices: sickDRA, wantSource: SourceAnnotation, wantUsable: "{0,3,6,7}",
		},
		"DRA and HAMi": {annotations: strs{annotationHAMiRegister: sickHAMi}, slices: sickDRA, wantSource: SourceDRA, wantUsable: "{0,3,4,5,6,7}"},
		"cordon":       {annotations: strs{annotationHAMiRegister: hamiJSON(3, nil), annotationCordon: "GPU-0,GPU-1"}, wantSource: SourceHAMi, wantUsable: "{2}"},
		"cordon without UUIDs": {
			annotations: strs{annotationCordon: "GPU-0"}, labels: gfdLabels(h100Label, 4), wantSource: SourceGFD, wantUsable: "{0,1,2,3}",
			wantProblem: []string{"hami.io/device-cordon"},
		},
		"weaker source is broken": {
			annotations: strs{v1alpha1.TopologyAnnotation: topology8(t), annotationHAMiRegister: "["}, wantSource: SourceAnnotation, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{"hami: "},
		},
		"weaker source has faulty cards": {
			annotations: strs{v1alpha1.TopologyAnnotation: topology8(t), annotationHAMiRegister: strings.Replace(hamiJSON(8, nil), "81920", "0", 1)},
			wantSource:  SourceAnnotation, wantUsable: "{0,1,2,3,4,5,6,7}", wantProblem: []string{"[0].devmem"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(tt.annotations, tt.labels, nil), tt.slices, Options{})
			if res.Source != tt.wantSource || usable(res) != tt.wantUsable {
				t.Errorf("got source %s, usable %s; want %s, %s", res.Source, usable(res), tt.wantSource, tt.wantUsable)
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}
