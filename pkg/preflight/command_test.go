package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/access"
)

// gates are the scheduler's own machinery for --feature-gates, with two gates that are on and one that is off.
type gates struct {
	flags    *pflag.FlagSet
	registry interface{ Set() error }
	gate     featuregate.FeatureGate
}

func newGates(t *testing.T) *gates {
	t.Helper()
	const component = "kube"
	release := version.MajorMinor(1, 37)
	gate := featuregate.NewVersionedFeatureGate(release)
	on := featuregate.VersionedSpecs{{Version: version.MajorMinor(1, 30), Default: true, PreRelease: featuregate.Beta}}
	off := featuregate.VersionedSpecs{{Version: version.MajorMinor(1, 30), Default: false, PreRelease: featuregate.Alpha}}
	if err := gate.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{"Needy": on, "Second": on, "Other": off}); err != nil {
		t.Fatal(err)
	}
	registry := compatibility.NewComponentGlobalsRegistry()
	if err := registry.Register(component, compatibility.NewEffectiveVersionFromString("1.37", "1.34", "1.34"), gate); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
	registry.AddFlags(flags)
	return &gates{flags: flags, registry: registry, gate: gate}
}

// TestTurnOff parses real flags, turns two gates off and looks at what the scheduler would run with.
func TestTurnOff(t *testing.T) {
	tests := map[string]struct {
		args []string
		want map[featuregate.Feature]bool
	}{
		"nothing set":            {nil, map[featuregate.Feature]bool{"Needy": false, "Second": false, "Other": false}},
		"set, bare":              {[]string{"--feature-gates=Needy=true"}, map[featuregate.Feature]bool{"Needy": true, "Second": false, "Other": false}},
		"set, with component":    {[]string{"--feature-gates=kube:Needy=true"}, map[featuregate.Feature]bool{"Needy": true, "Second": false, "Other": false}},
		"another, bare":          {[]string{"--feature-gates=Other=true"}, map[featuregate.Feature]bool{"Needy": false, "Second": false, "Other": true}},
		"another, component":     {[]string{"--feature-gates=kube:Other=true"}, map[featuregate.Feature]bool{"Needy": false, "Second": false, "Other": true}},
		"list":                   {[]string{"--feature-gates=Other=true,Needy=true"}, map[featuregate.Feature]bool{"Needy": true, "Second": false, "Other": true}},
		"list with component":    {[]string{"--feature-gates=kube:Other=true,kube:Second=true"}, map[featuregate.Feature]bool{"Needy": false, "Second": true, "Other": true}},
		"flag twice":             {[]string{"--feature-gates=Needy=true", "--feature-gates", "Second=true"}, map[featuregate.Feature]bool{"Needy": true, "Second": true, "Other": false}},
		"flag twice, component":  {[]string{"--feature-gates=kube:Needy=true", "--feature-gates=kube:Other=true"}, map[featuregate.Feature]bool{"Needy": true, "Second": false, "Other": true}},
		"turned off by the user": {[]string{"--feature-gates=Needy=false"}, map[featuregate.Feature]bool{"Needy": false, "Second": false, "Other": false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := newGates(t)
			if err := g.flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if err := turnOff(t.Context(), g.flags, []featuregate.Feature{"Needy", "Second"}, "test"); err != nil {
				t.Fatal(err)
			}
			if err := g.registry.Set(); err != nil {
				t.Fatalf("the scheduler refuses --feature-gates=%s: %v", g.flags.Lookup(gatesFlag).Value, err)
			}
			got := map[featuregate.Feature]bool{}
			for gate := range tt.want {
				got[gate] = g.gate.Enabled(gate)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("gates (-want +got):\n%s", d)
			}
		})
	}
}

func TestTurnOffErrors(t *testing.T) {
	if err := turnOff(t.Context(), pflag.NewFlagSet("", pflag.ContinueOnError), []featuregate.Feature{"A"}, "test"); err == nil || !strings.Contains(err.Error(), "--feature-gates") {
		t.Errorf("without the flag: %v", err)
	}
}

func TestRunsScheduler(t *testing.T) {
	tests := map[string]struct {
		args []string
		want bool
	}{
		"plain":              {nil, true},
		"configuration":      {[]string{"--config=x"}, true},
		"gates":              {[]string{"--feature-gates=A=true"}, true},
		"version":            {[]string{"--version=raw"}, false},
		"writes defaults":    {[]string{"--write-config-to=x"}, false},
		"emulates a version": {[]string{"--emulated-version=1.36"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand(nil)
			if err := cmd.Flags().Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if got := runsScheduler(cmd.Flags()); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
	if !runsScheduler(pflag.NewFlagSet("", pflag.ContinueOnError)) {
		t.Error("flags that do not exist are no reason to skip")
	}
}

// newCommand is a command with the flags that preflight looks at; setGates is what the scheduler does with its gates.
func newCommand(setGates func(gates string)) *cobra.Command {
	cmd := &cobra.Command{Use: "scheduler", SilenceUsage: true, SilenceErrors: true, RunE: func(*cobra.Command, []string) error { return nil }}
	for _, name := range []string{"config", "kubeconfig", "master", "version", "write-config-to", "emulated-version"} {
		cmd.Flags().String(name, "", "")
	}
	cmd.Flags().Var(cliflag.NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey(&map[string][]string{}), gatesFlag, "")
	cmd.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if setGates != nil {
			setGates(c.Flags().Lookup(gatesFlag).Value.String())
		}
		return nil
	}
	return cmd
}

// newAPI is an API server that has the DRA resources named; before answers a request instead where it returns true.
func newAPI(t *testing.T, before func(http.ResponseWriter) bool, resources ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case before != nil && before(w):
			return
		case r.URL.Path != "/apis/resource.k8s.io/v1":
			http.NotFound(w, r)
			return
		}
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "resource.k8s.io/v1"}
		for _, name := range resources {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const (
	gateOff = ":" + string(features.DRADeviceTaintRules) + "=false"
	gateOn  = ":" + string(features.DRADeviceTaintRules) + "=true"
	// costly is turned off whatever the server serves.
	costly = ":" + string(features.NominatedNodeNameForExpectation) + "=false"
)

func TestWrap(t *testing.T) {
	older := newAPI(t, nil, "resourceslices")
	current := newAPI(t, nil, "resourceslices", "devicetaintrules")
	kubeconfig, configuration := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "config.yaml")
	if err := access.WriteKubeconfig(kubeconfig, &rest.Config{Host: older}); err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: {kubeconfig: " + kubeconfig + "}\n"
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	user := "--feature-gates=" + gateOn
	tests := map[string]struct {
		args []string
		want string
	}{
		"older server":                       {[]string{"--master=" + older}, gateOff + "," + costly},
		"older server, by kubeconfig":        {[]string{"--kubeconfig=" + kubeconfig}, gateOff + "," + costly},
		"older server, by configuration":     {[]string{"--config=" + configuration}, gateOff + "," + costly},
		"configuration before kubeconfig":    {[]string{"--config=" + configuration, "--kubeconfig=/nonexistent"}, gateOff + "," + costly},
		"older server, the user knows":       {[]string{"--master=" + older, user}, gateOn + "," + costly},
		"current server":                     {[]string{"--master=" + current}, costly},
		"the user wants the costly gate":     {[]string{"--master=" + current, "--feature-gates=NominatedNodeNameForExpectation=true"}, ":NominatedNodeNameForExpectation=true"},
		"a version is printed, nobody asked": {[]string{"--version=raw", "--kubeconfig=/nonexistent"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			set := 0
			var got string
			cmd := newCommand(func(gates string) { set++; got = gates })
			Wrap(cmd, nobody)
			cmd.SetArgs(tt.args)
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if set != 1 || got != tt.want {
				t.Errorf("the gates were set %d times, to %q, want once, to %q", set, got, tt.want)
			}
		})
	}
}

// nobody is told of an election that does not take place.
func nobody(componentbaseconfig.LeaderElectionConfiguration) {}

// TestElection: what the process will elect its leader by, as kube-scheduler itself puts file and flags together.
func TestElection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: true, resourceName: mine, resourceNamespace: here}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := "--master=" + newAPI(t, nil)
	tests := map[string]struct {
		args []string
		want string
	}{
		"flags and their defaults":  {[]string{server}, "kube-system/kube-scheduler"},
		"flags":                     {[]string{server, "--leader-elect-resource-name=other"}, "kube-system/other"},
		"off by flag":               {[]string{server, "--leader-elect=false"}, ""},
		"file":                      {[]string{server, "--config=" + file}, "here/mine"},
		"file, name by flag":        {[]string{server, "--config=" + file, "--leader-elect-resource-name=other"}, "here/other"},
		"file, namespace by flag":   {[]string{server, "--config=" + file, "--leader-elect-resource-namespace=there"}, "there/mine"},
		"file, but off by the flag": {[]string{server, "--config=" + file, "--leader-elect=false"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			cmd := newCommand(nil)
			cmd.Flags().Bool("leader-elect", true, "")
			cmd.Flags().String("leader-elect-resource-name", "kube-scheduler", "")
			cmd.Flags().String("leader-elect-resource-namespace", "kube-system", "")
			Wrap(cmd, func(c componentbaseconfig.LeaderElectionConfiguration) {
				got = c.ResourceNamespace + "/" + c.ResourceName
			})
			cmd.SetArgs(tt.args)
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("elects by lease %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWrapErrors(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(broken, []byte("kind: Pod\napiVersion: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ arg, want string }{
		"no kubeconfig":                 {"--kubeconfig=/nonexistent/kubeconfig", "/nonexistent/kubeconfig"},
		"no configuration":              {"--config=/nonexistent/config", "/nonexistent/config"},
		"configuration of another sort": {"--config=" + broken, broken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			set := false
			cmd := newCommand(func(string) { set = true })
			Wrap(cmd, nobody)
			cmd.SetArgs([]string{tt.arg})
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), "preflight") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one of preflight that names %q", err, tt.want)
			}
			if set {
				t.Error("the scheduler went on")
			}
		})
	}
}

// TestWrapWithoutHook: a command that sets no gates of its own is wrapped all the same.
func TestWrapWithoutHook(t *testing.T) {
	cmd := newCommand(nil)
	cmd.PersistentPreRunE = nil
	Wrap(cmd, nobody)
	cmd.SetArgs([]string{"--master=" + newAPI(t, nil)})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := cmd.Flags().Lookup(gatesFlag).Value.String(); got != gateOff+","+costly {
		t.Errorf("gates %s, want %s", got, gateOff+","+costly)
	}
}

// TestAskAgain: a server that is not ready is asked again; a scheduler often starts before it.
func TestAskAgain(t *testing.T) {
	asked := 0
	notReady := func(w http.ResponseWriter) bool {
		if asked++; asked > 1 {
			return false
		}
		http.Error(w, "not ready", http.StatusInternalServerError)
		return true
	}
	cmd := newCommand(nil)
	Wrap(cmd, nobody)
	cmd.SetArgs([]string{"--master=" + newAPI(t, notReady, "devicetaintrules")})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked < 2 {
		t.Errorf("asked %d times", asked)
	}
}

// deaf is an API server that answers the last of so many questions.
type deaf struct{ questions, asked int }

func (d *deaf) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	if d.asked++; d.asked < d.questions {
		return nil, errors.New("no answer")
	}
	return &metav1.APIResourceList{}, nil
}

// TestAskForAsLongAsItSays: it asks every few seconds until patience ends, and says so only then.
func TestAskForAsLongAsItSays(t *testing.T) {
	for questions, wantErr := range map[int]bool{20: false, 1000: true} {
		synctest.Test(t, func(t *testing.T) {
			started := time.Now()
			api := &deaf{questions: questions}
			_, err := ask(t.Context(), api)
			if waited := time.Since(started); (err != nil) != wantErr || wantErr && waited != patience {
				t.Errorf("after %d of %d questions and %v: error %v, want one: %t", api.asked, questions, waited, err, wantErr)
			}
		})
	}
}

// TestAskEndsWithTheProcess: whoever stops the process while it waits does not wait for it.
func TestAskEndsWithTheProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refuse := func(w http.ResponseWriter) bool {
		cancel()
		http.Error(w, "still not ready", http.StatusInternalServerError)
		return true
	}
	cmd := newCommand(nil)
	Wrap(cmd, nobody)
	cmd.SetArgs([]string{"--master=" + newAPI(t, refuse)})
	if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "resource.k8s.io/v1") {
		t.Errorf("error %v, want one that says what was asked", err)
	}
}

func TestCostlyGatesExist(t *testing.T) {
	known := utilfeature.DefaultFeatureGate.DeepCopy().GetAll()
	for _, gate := range Costly() {
		if spec, ok := known[gate]; !ok || !spec.Default {
			t.Errorf("gate %s: known %t, on by default %t; a gate that is gone or off need not be turned off", gate, ok, spec.Default)
		}
	}
}
