package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLevelNames(t *testing.T) {
	want := []string{"host", "nvlink", "leaf", "spine", "core", "zone", "region", "cluster"}
	var got []string
	for l := LevelHost; l <= LevelCluster; l++ {
		got = append(got, l.String())
		back, err := ParseLevel(l.String())
		if err != nil || back != l {
			t.Errorf("%v: read back as %v, %v", l, back, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("levels from narrow to wide (-want +got):\n%s", diff)
	}
	if got := (LevelCluster + 1).String(); got != "level 8" {
		t.Errorf("a level that does not exist prints as %q", got)
	}
}

func TestParseLevel(t *testing.T) {
	for in, want := range map[string]struct {
		level Level
		err   string
	}{
		"rack":    {level: LevelLeaf},
		"leaf":    {level: LevelLeaf},
		"nvlink":  {level: LevelNVLink},
		"":        {err: `level "" is none of host, nvlink, leaf (rack), spine, core, zone, region, cluster`},
		"Leaf":    {err: `level "Leaf" is none of host, nvlink, leaf (rack), spine, core, zone, region, cluster`},
		"leaf ":   {err: `level "leaf " is none of host, nvlink, leaf (rack), spine, core, zone, region, cluster`},
		"level 3": {err: `level "level 3" is none of host, nvlink, leaf (rack), spine, core, zone, region, cluster`},
	} {
		got, err := ParseLevel(in)
		if got != want.level {
			t.Errorf("%q: got %v, want %v", in, got, want.level)
		}
		if (err == nil) != (want.err == "") || err != nil && err.Error() != want.err {
			t.Errorf("%q: got error %v, want %q", in, err, want.err)
		}
	}
}
