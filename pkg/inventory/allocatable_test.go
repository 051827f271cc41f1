package inventory

import (
	"testing"
)

func TestAllocatable(t *testing.T) {
	tests := map[string]struct {
		status      strs
		want        string // instances, see there
		wantUsable  string
		wantCount   int
		wantProblem []string
	}{
		"cards":            {status: strs{"nvidia.com/gpu": "2", "nvidia.com/gpu^": "2", "cpu": "64"}, want: "whole | whole", wantUsable: "{0,1}", wantCount: 2},
		"one of them sick": {status: strs{"nvidia.com/gpu": "2", "nvidia.com/gpu^": "3"}, want: "whole | whole | whole", wantUsable: "{0,1,2}", wantCount: 2, wantProblem: []string{"offers 2 of 3"}},
		"agent dead":       {status: strs{"nvidia.com/gpu": "0", "nvidia.com/gpu^": "2"}, want: "closed | closed", wantUsable: "{}", wantProblem: []string{"offers none of 2"}},
		"nothing":          {status: strs{"cpu": "64"}, wantUsable: "none", wantCount: -1},
		"none":             {status: strs{"nvidia.com/gpu": "0"}, wantUsable: "none", wantCount: -1},
		"below 0":          {status: strs{"nvidia.com/gpu": "-8"}, wantUsable: "none", wantCount: -1, wantProblem: []string{`"-8": is not a count`}},
		"200":              {status: strs{"nvidia.com/gpu": "200"}, wantUsable: "none", wantCount: -1, wantProblem: []string{`"200"`}},
		"64":               {status: strs{"nvidia.com/gpu": "64", "nvidia.com/mig-1g.5gb": "1"}, wantUsable: "all", wantCount: 64, wantProblem: []string{"do not fit"}},
		"instances": {
			status:     strs{"nvidia.com/mig-1g.5gb": "3", "nvidia.com/mig-7g.40gb": "1"},
			want:       "7g.40gb@0 | 1g.5gb@0 1g.5gb@1 1g.5gb@2",
			wantUsable: "{0,1}", wantCount: -1,
		},
		"a profile that cannot be read": {
			status: strs{"nvidia.com/gpu": "1", "nvidia.com/mig-x": "3", "nvidia.com/mig-7g.40gb": "1"},
			want:   "whole", wantUsable: "{0}", wantCount: 1, wantProblem: []string{"mig-x"},
		},
		"shared instances count nothing": {
			status: strs{"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb.shared": "70"}, want: "whole", wantUsable: "{0}", wantCount: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, nil, tt.status), nil, Options{})
			got := usable(res)
			if res.Topology != nil && res.Topology.Usable().Len() == 64 {
				got = "all"
			}
			if got != tt.wantUsable || res.Allocatable != tt.wantCount {
				t.Errorf("got usable %s, allocatable %d; want %s, %d", got, res.Allocatable, tt.wantUsable, tt.wantCount)
			}
			if tt.want != "" && instances(res) != tt.want {
				t.Errorf("cards are %s, want %s", instances(res), tt.want)
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}
