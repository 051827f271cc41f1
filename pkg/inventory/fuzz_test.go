package inventory

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func FuzzHAMiRegister(f *testing.F) {
	f.Add(hamiJSON(8, nil), scores(8, func(i, j int) int { return 100*i + 10*j }))
	f.Add(`[{"id":"GPU-0","devmem":-1},null,{"index":63}]`, `[{"uuid":"GPU-0","score":{"GPU-0":1800,"x":-1}}]`)
	f.Add("[]", "null")
	f.Add(`[{"index":9223372036854775807}]`, "[null]")
	f.Fuzz(func(t *testing.T, register, score string) {
		res := Resolve(newNode(strs{annotationHAMiRegister: register, annotationHAMiScore: score}, nil, nil), nil, Options{})
		checkResult(t, res)
		devices, err := parseHAMiRegister(register)
		if err != nil || res.Topology == nil {
			return
		}
		for _, d := range devices {
			i := res.Topology.IndexOf(d.ID)
			if i >= 0 && res.Topology.Card(i).Healthy && (!d.Health || d.Devmem <= 0 || res.Topology.Card(i).VRAMBytes != d.Devmem*mib) {
				t.Fatalf("%+v became %+v", d, res.Topology.Card(i))
			}
		}
	})
}

func FuzzHAMiText(f *testing.F) {
	f.Add("GPU-a,10,16384,100,NVIDIA-Tesla V100,0,true:GPU-b,10,16384,100,NVIDIA-Tesla V100,1,false,1,mig:")
	f.Add("GPU-a,10,-1,100,,0,true,63:")
	f.Add(":::,,,")
	f.Fuzz(func(t *testing.T, value string) {
		devices, err := parseHAMiText(value)
		if err != nil {
			if devices != nil {
				t.Fatal("devices beside an error")
			}
			return
		}
		if len(devices) > topology.MaxCards {
			t.Fatalf("%d devices", len(devices))
		}
		var groups []string
		for _, d := range devices {
			groups = append(groups, hamiText(d))
		}
		again, err := parseHAMiText(strings.Join(groups, ""))
		if err != nil || !reflect.DeepEqual(again, devices) {
			t.Fatalf("%+v is written as %q and read as %+v, %v", devices, groups, again, err)
		}
	})
}

// hamiText writes a device in the text form.
func hamiText(d hamiDevice) string {
	return fmt.Sprintf("%s,1,%d,100,%s,%d,%v,%d,%s:", d.ID, d.Devmem, d.Type, d.NUMA, d.Health, d.Index, d.Mode)
}

func FuzzVolcanoRegister(f *testing.F) {
	f.Add("GPU-1234,10,32768,NVIDIA-V100,true,hami-core:GPU-5678,10,32768,NVIDIA-V100,false,mig:")
	f.Add("GPU-1234,10,0,,true,")
	f.Add(",,,,,:")
	f.Fuzz(func(t *testing.T, value string) {
		res := Resolve(newNode(strs{annotationVolcanoRegister: value}, nil, nil), nil, Options{})
		checkResult(t, res)
		devices, err := parseVolcanoRegister(value)
		if (err == nil && len(devices) > 0) != (res.Topology != nil) {
			t.Fatalf("%d devices, %v; cards: %v", len(devices), err, res.Topology != nil)
		}
		for i, d := range devices {
			if c := res.Topology.Card(i); c.Healthy && (!d.healthy || d.memory <= 0 || d.uuid == "") {
				t.Fatalf("%+v became %+v", d, c)
			}
		}
	})
}

// FuzzResolve feeds every text that Resolve reads. It looks for panics, for results that break a rule, and for a cache that
// differs from the function.
func FuzzResolve(f *testing.F) {
	f.Add(`{"v":1,"cards":[{"uuid":"GPU-0"}],"observedAt":"2026-03-01T12:00:00Z"}`, "", "", "", "GPU-0", h100Label, "8", "81920", "2", "mig-1g.10gb", "7", int64(1))
	f.Add("{}", hamiJSON(2, nil), scores(2, func(int, int) int { return 1800 }), "GPU-1,1,1,T4,true,mig:", ",", "T4-SHARED", "x", "0", "", "mig-1g.10gb.me", "-1", int64(-1))
	f.Add(`{"v":1,"cards":[]}`, "[", "[", ":", " ", "X-MIG-1g.5gb", "64", "", "0", "mig-", "513", int64(65))
	f.Fuzz(func(t *testing.T, annotation, register, score, volcano, cordon, product, count, memory, replicas, profile, instances string, offered int64) {
		node := newNode(strs{
			v1alpha1.TopologyAnnotation: annotation, annotationHAMiRegister: register, annotationHAMiScore: score,
			annotationVolcanoRegister: volcano, annotationCordon: cordon,
		}, strs{labelProduct: product, labelCount: count, labelMemory: memory, labelReplicas: replicas, "nvidia.com/" + profile + ".count": instances}, nil)
		node.Status.Allocatable = v1.ResourceList{
			resourceGPU:                              *resource.NewQuantity(offered, resource.DecimalSI),
			v1.ResourceName("nvidia.com/" + profile): *resource.NewQuantity(offered, resource.DecimalSI),
		}
		for key, value := range node.Annotations {
			if value == "" {
				delete(node.Annotations, key)
			}
		}
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		res := Resolve(node, nil, Options{Now: now, MaxAge: time.Hour})
		checkResult(t, res)
		if res.Topology != nil && offered <= 0 && res.Source != SourceVolcano && !(res.Topology.Usable() &^ res.Topology.MIGCards()).Empty() {
			t.Fatalf("the kubelet offers %d, and %s are usable", offered, res.Topology.Usable())
		}
		if got, changed := NewCache(Options{MaxAge: time.Hour}).Resolve(node, nil, now); !changed || !reflect.DeepEqual(got, res) {
			t.Fatalf("the cache says\n%s, want\n%s", dump(got), dump(res))
		}
	})
}
