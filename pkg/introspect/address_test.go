package introspect

import (
	"strings"
	"testing"
)

func TestAddressSet(t *testing.T) {
	tests := map[string]struct {
		value        string
		want         Address
		wantLoopback bool
		wantErr      []string
	}{
		"default":           {value: "127.0.0.1:10269", want: DefaultAddress, wantLoopback: true},
		"off by nothing":    {value: "", want: ""},
		"off by zero":       {value: "0", want: ""},
		"localhost":         {value: "localhost:1", want: "localhost:1", wantLoopback: true},
		"IPv6 loopback":     {value: "[::1]:10269", want: "[::1]:10269", wantLoopback: true},
		"all addresses":     {value: ":10269", want: ":10269"},
		"one of the others": {value: "10.0.0.7:10269", want: "10.0.0.7:10269"},
		"any port":          {value: "127.0.0.1:0", want: "127.0.0.1:0", wantLoopback: true},
		"port alone":        {value: "10269", wantErr: []string{`"10269"`, "ip:port"}},
		"no port":           {value: "127.0.0.1", wantErr: []string{`"127.0.0.1"`, "ip:port"}},
		"a name":            {value: "scheduler.local:10269", wantErr: []string{"scheduler.local", "IP address"}},
		"empty port":        {value: "127.0.0.1:", wantErr: []string{`port ""`}},
		"port too large":    {value: "127.0.0.1:65536", wantErr: []string{"65536", "65535"}},
		"negative port":     {value: "127.0.0.1:-1", wantErr: []string{`"-1"`}},
		"port by name":      {value: "127.0.0.1:http", wantErr: []string{"http"}},
		"bare IPv6":         {value: "::1:10269", wantErr: []string{"ip:port"}},
		"URL":               {value: "http://127.0.0.1:10269", wantErr: []string{"ip:port"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			const before Address = "127.0.0.1:1"
			got := before
			err := got.Set(tt.value)
			if len(tt.wantErr) == 0 {
				if err != nil || got != tt.want || got.Loopback() != tt.wantLoopback {
					t.Errorf("Set(%q): %q, loopback %t, %v; want %q, loopback %t", tt.value, got, got.Loopback(), err, tt.want, tt.wantLoopback)
				}
				return
			}
			if err == nil || got != before {
				t.Fatalf("Set(%q): %q, %v; want an error and no change", tt.value, got, err)
			}
			for _, part := range tt.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Set(%q): %v; want it to say %s", tt.value, err, part)
				}
			}
		})
	}
}

// FuzzAddress: what Set takes can be read again, and an error repeats no more than a part of the value.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "0", "127.0.0.1:10269", "[::1]:0", "x:y", strings.Repeat("9", 200) + ":1", strings.Repeat("ä", 80)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var a, again Address
		if err := a.Set(value); err != nil {
			if len(err.Error()) > 8*maxQuoted+200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if err := again.Set(a.String()); err != nil || again != a {
			t.Errorf("Set(%q) gave %q, and Set of that %q, %v", value, a, again, err)
		}
	})
}
