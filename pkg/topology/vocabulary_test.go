package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type labels = map[string]string

// TestDefaultLevels reads the labels that every cloud and every generation of a labeller puts on one node.
func TestDefaultLevels(t *testing.T) {
	type levels = map[Level]string
	tests := map[string]struct {
		labels labels
		want   levels
	}{
		"nothing": {labels: labels{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, want: levels{}},
		"kubernetes": {
			labels: labels{"topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1a", "kubernetes.io/hostname": "node-1"},
			want:   levels{LevelZone: "eu-west-1a", LevelRegion: "eu-west-1"},
		},
		"empty values": {
			labels: labels{"topology.kubernetes.io/zone": "", "fabric.topograph.run/tier-0": "", "network.topology.nvidia.com/leaf": "sw-1"},
			want:   levels{LevelLeaf: "sw-1"},
		},
		"GPU Feature Discovery": {
			labels: labels{"nvidia.com/gpu.clique": "8f2e7c1a-93d4-4b6f-a1c0-5e7d2b9f4a10.32766"},
			want:   levels{LevelNVLink: "8f2e7c1a-93d4-4b6f-a1c0-5e7d2b9f4a10.32766"},
		},
		"a GPU without multi-node NVLink": {
			labels: labels{"nvidia.com/gpu.clique": "00000000-0000-0000-0000-000000000000.0", "accelerator.topograph.run/domain": "00000000-0000-0000-0000-000000000000.0"},
			want:   levels{},
		},
		"topograph v1": {
			labels: labels{
				"fabric.topograph.run/tier-0": "s1", "fabric.topograph.run/tier-1": "s2", "fabric.topograph.run/tier-2": "s3",
				"fabric.topograph.run/tier-3": "s4", "accelerator.topograph.run/domain": "nvl1",
			},
			want: levels{LevelNVLink: "nvl1", LevelLeaf: "s1", LevelSpine: "s2", LevelCore: "s3"},
		},
		"topograph v1, sub-domain": {
			labels: labels{"accelerator.topograph.run/domain": "nvl1", "accelerator.topograph.run/sub-domain": "nvl1.rack01"},
			want:   levels{LevelNVLink: "nvl1.rack01"},
		},
		"topograph v1, the closest switch is not known": {
			labels: labels{"fabric.topograph.run/tier-1": "s2"},
			want:   levels{LevelSpine: "s2"},
		},
		"topograph v0.5": {
			labels: labels{
				"network.topology.nvidia.com/accelerator": "nvl1", "network.topology.nvidia.com/leaf": "s1",
				"network.topology.nvidia.com/spine": "s2", "network.topology.nvidia.com/core": "s3",
			},
			want: levels{LevelNVLink: "nvl1", LevelLeaf: "s1", LevelSpine: "s2", LevelCore: "s3"},
		},
		"topograph, older": {
			labels: labels{
				"network.topology.nvidia.com/accelerator": "nvl1", "network.topology.nvidia.com/block": "s1",
				"network.topology.nvidia.com/spine": "s2", "network.topology.nvidia.com/datacenter": "s3",
			},
			want: levels{LevelNVLink: "nvl1", LevelLeaf: "s1", LevelSpine: "s2", LevelCore: "s3"},
		},
		"topograph, two generations": {
			labels: labels{
				"fabric.topograph.run/tier-0": "new-1", "fabric.topograph.run/tier-1": "new-2",
				"network.topology.nvidia.com/leaf": "old-1", "network.topology.nvidia.com/spine": "old-2", "network.topology.nvidia.com/core": "old-3",
			},
			want: levels{LevelLeaf: "new-1", LevelSpine: "new-2", LevelCore: "old-3"},
		},
		"GKE": {
			labels: labels{
				"cloud.google.com/gce-topology-block": "b1", "cloud.google.com/gce-topology-subblock": "b1s1", "cloud.google.com/gce-topology-host": "h1",
				"topology.kubernetes.io/zone": "us-central1-a",
			},
			want: levels{LevelLeaf: "b1s1", LevelSpine: "b1", LevelZone: "us-central1-a"},
		},
		"EKS, three layers": {
			labels: labels{
				"topology.k8s.aws/network-node-layer-1": "nn-1", "topology.k8s.aws/network-node-layer-2": "nn-2",
				"topology.k8s.aws/network-node-layer-3": "nn-3", "topology.k8s.aws/capacity-block-id": "cbr-1",
			},
			want: levels{LevelLeaf: "nn-3", LevelSpine: "nn-2", LevelCore: "nn-1"},
		},
		"EKS, four layers": {
			labels: labels{
				"topology.k8s.aws/network-node-layer-1": "nn-1", "topology.k8s.aws/network-node-layer-2": "nn-2",
				"topology.k8s.aws/network-node-layer-3": "nn-3", "topology.k8s.aws/network-node-layer-4": "nn-4",
				"topology.k8s.aws/ultraserver-id": "us-1",
			},
			want: levels{LevelNVLink: "us-1", LevelLeaf: "nn-4", LevelSpine: "nn-3", LevelCore: "nn-2"},
		},
		"OKE, RDMA": {
			labels: labels{
				"oci.oraclecloud.com/rdma.host_id": "ab3z", "oci.oraclecloud.com/rdma.local_block_id": "4tjx",
				"oci.oraclecloud.com/rdma.network_block_id": "7xmz", "oci.oraclecloud.com/rdma.hpc_island_id": "af7u",
				"oci.oraclecloud.com/host.rack_id": "r1", "oci.oraclecloud.com/host.network_block_id": "nb1",
			},
			want: levels{LevelLeaf: "4tjx", LevelSpine: "7xmz", LevelCore: "af7u"},
		},
		"OKE, host": {
			labels: labels{
				"oci.oraclecloud.com/host.id": "h1", "oci.oraclecloud.com/host.serial_number": "23XX", "oci.oraclecloud.com/host.rack_id": "r1",
				"oci.oraclecloud.com/host.network_block_id": "nb1",
			},
			want: levels{LevelLeaf: "r1", LevelSpine: "nb1"},
		},
		"CoreWeave": {
			labels: labels{
				"backend.coreweave.cloud/fabric": "fabric-a", "backend.coreweave.cloud/leafgroup": "12", "backend.coreweave.cloud/leafgroup-name": "lg-12",
				"backend.coreweave.cloud/flavor": "infiniband", "ds.coreweave.com/nvlink.domain": "nvl-7", "node.coreweave.cloud/rack": "238",
			},
			want: levels{LevelNVLink: "nvl-7", LevelLeaf: "12", LevelCore: "fabric-a"},
		},
		"CoreWeave, InfiniBand": {
			labels: labels{
				"ib.coreweave.cloud/fabric": "fabric-a", "ib.coreweave.cloud/superpod": "2", "ib.coreweave.cloud/leafgroup": "12", "ib.coreweave.cloud/speed": "400G",
			},
			want: levels{LevelLeaf: "12", LevelSpine: "2", LevelCore: "fabric-a"},
		},
		"CoreWeave, fabric labels not filled in": {
			labels: labels{"backend.coreweave.cloud/leafgroup": "", "ib.coreweave.cloud/leafgroup": "", "node.coreweave.cloud/rack": "238"},
			want:   levels{LevelLeaf: "238"},
		},
		"CoreWeave, only the name of the leaf group": {
			labels: labels{"backend.coreweave.cloud/leafgroup-name": "lg-12"},
			want:   levels{LevelLeaf: "lg-12"},
		},
		"Nebius, HGX": {
			labels: labels{"topology.nebius.com/gpu-cluster-id": "gc-1", "topology.nebius.com/tier-2": "t2", "topology.nebius.com/tier-1": "t1"},
			want:   levels{LevelLeaf: "t1", LevelSpine: "t2", LevelCore: "gc-1"},
		},
		"Nebius, NVL72": {
			labels: labels{
				"topology.nebius.com/gpu-cluster-id": "gc-1", "topology.nebius.com/tier-2": "t2", "topology.nebius.com/tier-1": "t1",
				"topology.nebius.com/tier-0": "t0", "topology.nebius.com/nvl-instance-group-id": "nvl-1",
			},
			want: levels{LevelNVLink: "nvl-1", LevelLeaf: "t0", LevelSpine: "t1", LevelCore: "t2"},
		},
		"Crusoe": {
			labels: labels{"crusoe.ai/pod.id": "pod-3", "crusoe.ai/ib.partition.id": "6e1f", "crusoe.ai/ib.partition.name": "train"},
			want:   levels{LevelLeaf: "pod-3", LevelSpine: "6e1f"},
		},
		"Crusoe, only the name of the partition": {
			labels: labels{"crusoe.ai/ib.partition.name": "train"},
			want:   levels{LevelSpine: "train"},
		},
		"Alibaba Lingjun": {
			labels: labels{"alibabacloud.com/asw-id": "asw-1", "alibabacloud.com/point-of-delivery": "pod-1"},
			want:   levels{LevelLeaf: "asw-1", LevelSpine: "pod-1"},
		},
		"Azure":                    {labels: labels{"kubernetes.azure.com/ppg": "ppg-1"}, want: levels{LevelCore: "ppg-1"}},
		"Volcano, switches":        {labels: labels{"volcano.sh/tor": "tor-1"}, want: levels{LevelLeaf: "tor-1"}},
		"Volcano, hyper nodes":     {labels: labels{"volcano.sh/hypernode": "hn-1", "volcano.sh/hypercluster": "hc-1"}, want: levels{LevelLeaf: "hn-1", LevelSpine: "hc-1"}},
		"more than 63 characters":  {labels: labels{"volcano.sh/tor": strings.Repeat("a", 64)}, want: levels{}},
		"63 characters":            {labels: labels{"volcano.sh/tor": strings.Repeat("a", 63)}, want: levels{LevelLeaf: strings.Repeat("a", 63)}},
		"characters of no label":   {labels: labels{"volcano.sh/tor": "a/b"}, want: levels{}},
		"a bad value hides no key": {labels: labels{"fabric.topograph.run/tier-0": "a b", "volcano.sh/tor": "tor-1"}, want: levels{LevelLeaf: "tor-1"}},
	}
	v := newVocabulary(DefaultLevels())
	unseen := make(map[string]bool)
	for _, k := range v.keys {
		unseen[k.Key] = true
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := levels{}
			for l, value := range v.read(tc.labels).values {
				if value != "" {
					got[Level(l)] = value
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
			for k := range tc.labels {
				delete(unseen, k)
			}
		})
	}
	if len(unseen) > 0 {
		t.Errorf("keys of the vocabulary that no case has: %v", slices.Sorted(maps.Keys(unseen)))
	}
}

func TestLabelPrefix(t *testing.T) {
	for name, tc := range map[string]struct {
		prefix, value, want string
	}{
		"whole value":       {value: "uuid.3", want: "uuid.3"},
		"up to the first":   {prefix: ".", value: "uuid.3.4", want: "uuid"},
		"not in the value":  {prefix: "-", value: "uuid.3", want: "uuid.3"},
		"nothing before it": {prefix: ".", value: ".3", want: ""},
		"no UUID":           {prefix: "0", value: nilUUID, want: ""},
	} {
		got, ok := LabelKey{Key: "k", Prefix: tc.prefix}.name(tc.value)
		if got != tc.want || !ok {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, tc.want)
		}
	}
}

func TestValidateLevels(t *testing.T) {
	keys := wholeValues
	many := make([]string, maxLevelKeys+1)
	for i := range many {
		many[i] = fmt.Sprintf("example.com/k%d", i)
	}
	for name, tc := range map[string]struct {
		levels    []LevelKeys
		wantField string
		wantValue string
	}{
		"none":                {},
		"defaults":            {levels: DefaultLevels()},
		"any order":           {levels: []LevelKeys{{LevelSpine, keys("example.com/row")}, {LevelLeaf, keys("rack")}}},
		"one key, two levels": {levels: []LevelKeys{{LevelLeaf, keys("a", "b")}, {LevelSpine, keys("b", "c")}}},
		"one key, whole and prefix": {levels: []LevelKeys{
			{LevelNVLink, []LabelKey{{Key: "nvidia.com/gpu.clique"}}}, {LevelLeaf, []LabelKey{{Key: "nvidia.com/gpu.clique", Prefix: "."}}},
		}},
		"the most keys":   {levels: []LevelKeys{{LevelLeaf, keys(many[1:]...)}}},
		"too many keys":   {levels: []LevelKeys{{LevelLeaf, keys(many...)}}, wantField: "levels[0].keys", wantValue: "129"},
		"cluster":         {levels: []LevelKeys{{LevelCluster, keys("a")}}, wantField: "levels[0].level", wantValue: "cluster"},
		"no level":        {levels: []LevelKeys{{200, keys("a")}}, wantField: "levels[0].level", wantValue: "level 200"},
		"twice":           {levels: []LevelKeys{{LevelLeaf, keys("a")}, {LevelLeaf, keys("b")}}, wantField: "levels[1].level", wantValue: "leaf"},
		"no key":          {levels: []LevelKeys{{LevelLeaf, nil}}, wantField: "levels[0].keys"},
		"empty key":       {levels: []LevelKeys{{LevelLeaf, keys("a", "")}}, wantField: "levels[0].keys[1].key"},
		"repeated key":    {levels: []LevelKeys{{LevelLeaf, keys("a", "b", "a")}}, wantField: "levels[0].keys[2].key", wantValue: "a"},
		"not a key":       {levels: []LevelKeys{{LevelLeaf, keys("a b")}}, wantField: "levels[0].keys[0].key", wantValue: "a b"},
		"two slashes":     {levels: []LevelKeys{{LevelLeaf, keys("a/b/c")}}, wantField: "levels[0].keys[0].key", wantValue: "a/b/c"},
		"empty prefix":    {levels: []LevelKeys{{LevelLeaf, keys("/c")}}, wantField: "levels[0].keys[0].key", wantValue: "/c"},
		"upper-case host": {levels: []LevelKeys{{LevelLeaf, keys("Example.com/c")}}, wantField: "levels[0].keys[0].key", wantValue: "Example.com/c"},
		"ends in a dash":  {levels: []LevelKeys{{LevelLeaf, keys("a/b-")}}, wantField: "levels[0].keys[0].key", wantValue: "a/b-"},
		"long name":       {levels: []LevelKeys{{LevelLeaf, keys(strings.Repeat("a", 65))}}, wantField: "levels[0].keys[0].key", wantValue: strings.Repeat("a", 64)},
		"long prefix":     {levels: []LevelKeys{{LevelLeaf, []LabelKey{{Key: "a", Prefix: ".."}}}}, wantField: "levels[0].keys[0].prefix", wantValue: ".."},
		"broken prefix":   {levels: []LevelKeys{{LevelLeaf, []LabelKey{{Key: "a", Prefix: "\xff"}}}}, wantField: "levels[0].keys[0].prefix", wantValue: "\xff"},
	} {
		err := ValidateLevels(tc.levels)
		if tc.wantField == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var spec *SpecError
		if !errors.As(err, &spec) {
			t.Errorf("%s: got %v, want a *SpecError", name, err)
			continue
		}
		if spec.Field != tc.wantField || spec.Value != tc.wantValue || spec.Reason == "" {
			t.Errorf("%s: got %+v, want field %q, value %q", name, spec, tc.wantField, tc.wantValue)
		}
	}
}

// TestInvalidVocabulary checks that a builder takes what is usable of levels that nobody validated.
func TestInvalidVocabulary(t *testing.T) {
	b := NewFabricBuilder([]LevelKeys{
		{Level: 200, Keys: wholeValues("x")},
		{Level: LevelLeaf, Keys: wholeValues("", "rack")},
		{Level: LevelLeaf, Keys: wholeValues("cabinet")},
	})
	b.SetNode("a", labels{"": "v", "x": "v", "rack": "r1"})
	b.SetNode("b", labels{"cabinet": "r1"})
	if got := b.Fabric().Domain(LevelLeaf, 1); got != (Domain{Level: LevelLeaf, Name: "r1", First: 0, End: 2}) {
		t.Errorf("got %+v", got)
	}
}
