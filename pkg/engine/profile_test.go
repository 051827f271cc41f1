package engine

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// listed is a profile that can be asked for its plugins.
type listed struct {
	fwk.Handle
	plugins schedconfig.Plugins
}

func (l listed) ListPlugins() *schedconfig.Plugins { return &l.plugins }

func TestProfile(t *testing.T) {
	set := func(names ...string) (s schedconfig.PluginSet) {
		for _, name := range names {
			s.Enabled = append(s.Enabled, schedconfig.Plugin{Name: name})
		}
		return s
	}
	var mute struct{ fwk.Handle }
	profile := listed{plugins: schedconfig.Plugins{PreEnqueue: set("Other", GateName), Filter: set("A", "B")}}
	without := listed{plugins: schedconfig.Plugins{PostFilter: set(GateName), PreEnqueue: set("A"), Filter: set(GateName)}}
	for name, tt := range map[string]struct{ got, want bool }{
		"gates":                            {Gates(profile), true},
		"the gate is no PreEnqueue plugin": {Gates(without), false},
		"gates of who cannot be asked":     {Gates(mute), false},
		"filters":                          {Filters(profile, "B", "A"), true},
		"one filter is missing":            {Filters(profile, "A", "C"), false},
		"filters of who cannot be asked":   {Filters(mute, "A"), false},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %t, want %t", name, tt.got, tt.want)
		}
	}
}
