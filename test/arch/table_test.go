package arch

import (
	"os"
	"slices"
	"testing"
)

func TestImports(t *testing.T) {
	breaches, err := check(os.DirFS("../.."), table, separations)
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range breaches {
		t.Error(breach)
	}
}

var (
	// pure is what would tie the core to one process, one moment or one run.
	pure = []string{"context", "log/...", "math/rand/...", "net/...", "os/...", "syscall", "time"}

	// pureButTime allows the values of package time. A test of the package bans what reads the clock or waits.
	pureButTime = slices.DeleteFunc(slices.Clone(pure), func(path string) bool { return path == "time" })

	testLibraries = []string{
		"github.com/cockroachdb/datadriven", "github.com/google/go-cmp/cmp/...", "go.uber.org/goleak", "pgregory.net/rapid",
		"sigs.k8s.io/yaml", "pkg/testkit", "test/checkout",
	}
	apiTypes = []string{"k8s.io/api/...", "k8s.io/apimachinery/..."}
	client   = slices.Concat(apiTypes, []string{"k8s.io/client-go/...", "k8s.io/klog/v2/...", "k8s.io/utils/...", "sigs.k8s.io/yaml"})
	// framework is what kube-scheduler gives its plugins.
	framework = slices.Concat(client, []string{
		"k8s.io/apiserver/pkg/util/feature", "k8s.io/kube-scheduler/framework/...",
		"k8s.io/kubernetes/pkg/features", "k8s.io/kubernetes/pkg/scheduler/...",
	})
	// cluster is what tests against an API server need. It runs as its own program, so that the race detector watches
	// our side of the connection and not the server.
	cluster = slices.Concat(testLibraries, framework, []string{
		"k8s.io/component-base/metrics/testutil", "pkg/controlplane/access", "pkg/controlplane/process",
	})
)

// table has a row for each package, the ones that import least first.
var table = map[string]rule{
	"pkg/topology": {
		noStd: pure, tests: testLibraries,
		why: "a node's graph is a value: built once, compared, fuzzed and dumped with no cluster, clock or log",
	},
	"pkg/allocate": {
		imports: []string{"pkg/topology"}, noStd: pure, tests: testLibraries,
		why: "the choice of cards is a function of graph, use and request; anything else it saw could change the answer between Filter and Reserve",
	},
	"pkg/ledger": {
		imports: []string{"pkg/allocate", "pkg/topology"}, noStd: pure, tests: testLibraries,
		why: "who holds what must be provable without an API server; no call may leave while its lock is held",
	},
	"pkg/placement": {
		imports: []string{"pkg/allocate", "pkg/ledger", "pkg/topology"}, noStd: pure, tests: testLibraries,
		why: "a plan is a function of gang and nodes, so that a brute force can judge it and a gang can be planned in a replay",
	},
	"pkg/backlog": {
		imports: []string{"pkg/allocate", "pkg/ledger", "pkg/topology"}, noStd: pureButTime, tests: testLibraries,
		why: "that no pod sleeps on beside cards that it could have must be provable by replaying what happened: times come in as values",
	},
	"pkg/gang": {
		imports: []string{"pkg/ledger"}, noStd: pureButTime, tests: testLibraries,
		why: "whether half a gang may bind must be provable by replaying events: times come in as values, and actions go out as values",
	},
	"pkg/spread": {
		noStd: pure, tests: testLibraries,
		why: "counts that a cycle keeps for the next are only right if nothing but the nodes that it is shown can change them",
	},
	"pkg/apis/gputopology/v1alpha1": {
		imports: []string{"pkg/topology"}, tests: testLibraries,
		why: "agents and tools read the wire formats; they must not have to link a scheduler for it",
	},
	"pkg/apis/config": {
		imports: []string{
			"pkg/apis/gputopology/v1alpha1", "pkg/allocate", "pkg/topology", "k8s.io/api/core/v1", "k8s.io/apimachinery/...",
			"k8s.io/kubernetes/pkg/scheduler/apis/config/...", "k8s.io/kube-scheduler/config/v1", "k8s.io/utils/ptr",
		},
		tests: slices.Concat(testLibraries, []string{"k8s.io/kubernetes/pkg/scheduler/apis/config/..."}),
		why:   "arguments are decoded by the scheduler's scheme before anything of ours runs",
	},
	"pkg/request": {
		imports: slices.Concat(apiTypes, []string{"pkg/allocate", "pkg/apis/gputopology/v1alpha1", "pkg/ledger", "pkg/topology"}),
		tests:   testLibraries,
		why:     "what a pod asks for depends on the pod alone",
	},
	"pkg/record": {
		imports: slices.Concat(apiTypes, []string{
			"pkg/allocate", "pkg/apis/gputopology/v1alpha1", "pkg/ledger", "pkg/request", "pkg/topology",
		}),
		tests: testLibraries,
		why:   "what is written on a pod depends on pod and choice alone, so that it can be read back into the same holding",
	},
	"pkg/inventory": {
		imports: slices.Concat(apiTypes, []string{"pkg/apis/gputopology/v1alpha1", "pkg/topology", "k8s.io/dynamic-resource-allocation/..."}),
		tests:   testLibraries,
		why:     "what a node offers depends on its objects alone; informers belong to observe",
	},
	"pkg/metrics": {
		imports: []string{"k8s.io/component-base/metrics/..."}, tests: testLibraries,
		why: "every metric is declared here and nothing is computed here",
	},
	"pkg/preflight": {
		imports: slices.Concat(client, []string{
			"github.com/spf13/cobra", "github.com/spf13/pflag", "k8s.io/component-base/...",
			"k8s.io/kubernetes/cmd/kube-scheduler/app/options", "k8s.io/kubernetes/pkg/features",
		}),
		tests: cluster,
		why:   "it runs before there is a scheduler, an engine or a plugin",
	},
	"pkg/podgroup": {
		imports: slices.Concat(client, []string{"sigs.k8s.io/scheduler-plugins/...", "pkg/apis/gputopology/v1alpha1", "pkg/gang"}),
		tests:   testLibraries,
		why:     "it reads and writes PodGroups for whoever decides about gangs: no engine, no plugin, and nothing of kube-scheduler",
	},
	"pkg/podgroup/crd": {
		imports: slices.Concat(client, []string{"manifests"}),
		tests:   slices.Concat(testLibraries, []string{"sigs.k8s.io/scheduler-plugins/..."}),
		why:     "installing an API is for the demo and tests; the scheduler takes what it finds",
	},
	"pkg/observe": {
		imports: slices.Concat(client, []string{
			"k8s.io/apiserver/pkg/util/feature", "k8s.io/kubernetes/pkg/features",
			"pkg/allocate", "pkg/apis/gputopology/v1alpha1", "pkg/inventory", "pkg/ledger", "pkg/metrics", "pkg/record", "pkg/request", "pkg/topology",
		}),
		tests: cluster,
		why:   "it is the only door from the API into the ledger, and it decides nothing: no engine, no plugin",
	},
	"pkg/reconcile": {
		imports: slices.Concat(client, []string{"pkg/allocate", "pkg/ledger", "pkg/metrics", "pkg/observe"}),
		tests:   slices.Concat(cluster, []string{"pkg/apis/gputopology/v1alpha1", "pkg/record", "pkg/topology"}),
		why:     "it changes the ledger by the same doors as events do and no others, and the plan sees values alone: no engine, no plugin",
	},
	"pkg/book": {
		imports: slices.Concat(client, []string{
			"pkg/allocate", "pkg/apis/gputopology/v1alpha1", "pkg/gang", "pkg/ledger", "pkg/metrics", "pkg/podgroup", "pkg/topology",
		}),
		tests: slices.Concat(cluster, []string{"pkg/placement"}), // gangs are planned by what will plan them
		why:   "what gangs do is decided by gang and carried out here; the scheduler is behind an interface, so that it can be driven without one",
	},
	"pkg/tracing": {
		imports: []string{"go.opentelemetry.io/otel/...", "k8s.io/klog/v2/...", "pkg/allocate", "pkg/metrics"},
		tests:   slices.Concat(testLibraries, []string{"k8s.io/component-base/metrics/..."}),
		why:     "it is the only place that knows OpenTelemetry, so that it can be off at no cost; it looks at nothing that it traces",
	},
	"pkg/headroom": {
		tests: testLibraries,
		why:   "it sets a property of the process that links it, and knows nothing of what the process does",
	},
	"pkg/announce": {
		imports: slices.Concat(apiTypes, []string{"k8s.io/client-go/tools/events", "k8s.io/kubernetes/pkg/scheduler/framework"}),
		tests:   cluster,
		why:     "it holds events back and knows nothing of what they say; whether Bindings are open it is told by a function",
	},
	"pkg/command": {
		imports: slices.Concat(client, []string{
			"github.com/spf13/cobra", "k8s.io/component-base/...",
			"k8s.io/kubernetes/cmd/kube-scheduler/app/...", "k8s.io/kubernetes/pkg/scheduler/profile", "pkg/announce",
		}),
		tests: slices.Concat(cluster, []string{"github.com/spf13/pflag"}),
		why:   "it is kube-scheduler's command for any plugins: no engine, no plugin",
	},
	"pkg/introspect": {
		tests: testLibraries,
		why:   "it serves values: a client links the wire types and none of the scheduler, and what it serves cannot be changed through it",
	},
	"pkg/engine": {
		imports: slices.Concat(framework, []string{
			"k8s.io/component-base/config",
			"k8s.io/component-helpers/scheduling/corev1/...", "pkg/allocate", "pkg/apis/config", "pkg/apis/gputopology/v1alpha1", "pkg/backlog", "pkg/book", "pkg/gang", "pkg/introspect", "pkg/ledger", "pkg/metrics", "pkg/observe",
			"pkg/placement", "pkg/podgroup", "pkg/reconcile", "pkg/record", "pkg/request", "pkg/topology", "pkg/tracing",
		}),
		tests: slices.Concat(cluster, []string{"go.opentelemetry.io/otel/sdk/trace/tracetest"}),
		why:   "every profile shares it, so it knows no plugin",
	},
	"pkg/plugins/coscheduling": {
		imports: slices.Concat(framework, []string{
			"k8s.io/component-helpers/scheduling/corev1/...", "pkg/allocate", "pkg/apis/config", "pkg/apis/gputopology/v1alpha1", "pkg/book", "pkg/engine",
			"pkg/gang", "pkg/inventory", "pkg/ledger", "pkg/metrics", "pkg/placement", "pkg/record", "pkg/request", "pkg/topology", "pkg/tracing",
		}),
		tests: slices.Concat(cluster, []string{"pkg/apis/gputopology/v1alpha1", "pkg/podgroup"}),
		why:   "a plugin only translates between framework and engine; plugins never import each other",
	},
	"pkg/plugins/nccltopology": {
		imports: slices.Concat(framework, []string{
			"k8s.io/component-helpers/scheduling/corev1/...", "pkg/allocate", "pkg/apis/config", "pkg/apis/gputopology/v1alpha1", "pkg/book",
			"pkg/engine", "pkg/ledger", "pkg/metrics", "pkg/placement", "pkg/record", "pkg/request", "pkg/topology",
		}),
		tests: cluster,
		why:   "a plugin only translates between framework and engine; plugins never import each other",
	},
	"pkg/plugins/gputopology": {
		imports: slices.Concat(framework, []string{
			"pkg/allocate", "pkg/apis/config", "pkg/apis/gputopology/v1alpha1", "pkg/book", "pkg/engine", "pkg/inventory", "pkg/ledger", "pkg/metrics", "pkg/record", "pkg/request", "pkg/topology", "pkg/tracing",
		}),
		tests: cluster,
		why:   "a plugin only translates between framework and engine; plugins never import each other",
	},
	"pkg/plugins/topologyspread": {
		imports: slices.Concat(framework, []string{
			"k8s.io/component-helpers/resource", "k8s.io/component-helpers/scheduling/corev1/...", "pkg/apis/config", "pkg/apis/gputopology/v1alpha1",
			"pkg/allocate", "pkg/book", "pkg/engine", "pkg/inventory", "pkg/ledger", "pkg/spread", "pkg/topology",
		}),
		tests: slices.Concat(cluster, []string{"pkg/gang", "pkg/podgroup"}),
		why:   "a plugin only translates between framework and engine; plugins never import each other",
	},
	"pkg/controlplane": {
		imports: slices.Concat(client, []string{
			"github.com/spf13/pflag", "go.etcd.io/etcd/...", "go.uber.org/zap/...", "k8s.io/apiserver/...", "k8s.io/component-base/...",
			"k8s.io/kubernetes/cmd/kube-apiserver/...", "k8s.io/kubernetes/pkg/features", "pkg/controlplane/access",
		}),
		tests: cluster,
		why:   "an API server knows nothing of the scheduler that it is a test bed for",
	},
	"pkg/controlplane/access": {
		imports: client, tests: cluster,
		why: "credentials for any API server, in process or not",
	},
	"pkg/controlplane/process": {
		imports: slices.Concat(client, []string{"pkg/controlplane/access"}), tests: cluster,
		why: "it starts the control plane as a program so that its callers need not link one",
	},
	"manifests": {
		why: "files, embedded as they ship",
	},
	"pkg/simulate": {
		imports: slices.Concat(client, []string{
			"manifests", "pkg/apis/gputopology/v1alpha1", "pkg/controlplane/access", "pkg/controlplane/process", "pkg/podgroup/crd",
			"pkg/simulate/oracle", "pkg/topology",
		}),
		// Tests hold that the simulation means what the scheduler understands.
		tests: slices.Concat(testLibraries, []string{
			"k8s.io/kubernetes/pkg/scheduler/apis/config/...", "pkg/allocate", "pkg/apis/config", "pkg/inventory", "pkg/request",
		}),
		why: "it watches the scheduler from outside, as a user does; what it checks must not be computed by what it checks",
	},
	"pkg/simulate/oracle": {
		imports: []string{"pkg/apis/gputopology/v1alpha1", "pkg/topology"}, noStd: pure, tests: testLibraries,
		why: "the brute force that judges a placement shares no code with allocate",
	},
	"pkg/testkit": {
		imports: slices.Concat(client, []string{"pkg/allocate", "pkg/apis/gputopology/v1alpha1", "pkg/ledger", "pkg/topology"}),
		tests:   testLibraries,
		why:     "builders for the tests of every package, so nothing that has such tests may be below it but values",
	},
	"cmd/gpu-topology-scheduler": {
		imports: []string{
			"github.com/spf13/cobra", "k8s.io/apiserver/pkg/server", "k8s.io/component-base/...", "k8s.io/kubernetes/cmd/kube-scheduler/app",
			"pkg/apis/config", "pkg/command", "pkg/engine", "pkg/headroom", "pkg/introspect", "pkg/plugins/...", "pkg/preflight",
		},
		tests: cluster,
		why:   "main registers plugins, sets the process up and nothing more",
	},
	"cmd/kubectl-gputopo": {
		imports: slices.Concat(client, []string{
			"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term", "k8s.io/component-base/version",
			"pkg/apis/gputopology/v1alpha1", "pkg/inventory", "pkg/simulate", "pkg/topology",
		}),
		tests: testLibraries,
		why:   "a command parses flags, calls and prints",
	},
	"cmd/local-control-plane": {
		imports: []string{
			"github.com/spf13/cobra", "github.com/spf13/pflag", "k8s.io/component-base/cli", "k8s.io/klog/v2",
			"pkg/controlplane", "pkg/controlplane/access",
		},
		tests: cluster,
		why:   "main parses flags and nothing more",
	},
	"test/arch": {
		tests: testLibraries,
		why:   "the check of the imports reads files and needs no build of what it checks",
	},
	"test/cases": {
		tests: testLibraries,
		why:   "the list of cases is checked against the text of the tests, not by running them",
	},
	"test/checkout": {
		why: "it knows where things lie, and nothing of what they are",
	},
	"test/chaos": {
		tests: slices.Concat(client, []string{
			"github.com/google/go-cmp/cmp", "pkg/controlplane/access", "pkg/controlplane/process", "pkg/podgroup/crd", "test/chaos/...", "test/checkout",
		}),
		why: "it runs the scheduler as a program and judges it from outside, so it links nothing that decides",
	},
	"test/chaos/checker": {
		imports: apiTypes, tests: []string{"github.com/google/go-cmp/cmp"},
		why: "whether a card is sold twice is worked out once more, from the API and from JSON alone: a type or sum shared with the scheduler would share its mistakes",
	},
	"test/chaos/faults": {
		imports: apiTypes, tests: []string{"go.uber.org/goleak"},
		why: "a proxy knows requests and answers, and nothing of what they are about",
	},
	"test/fabric": {
		tests: slices.Concat(testLibraries, []string{"pkg/allocate", "pkg/ledger", "pkg/placement", "pkg/topology"}),
		why:   "thousands of gangs are placed in seconds, so it replays them on the core without a cluster",
	},
	"test/integration": {
		tests: slices.Concat(cluster, []string{
			"k8s.io/component-base/featuregate/testing", "k8s.io/component-base/metrics/...",
			"k8s.io/kubernetes/cmd/kube-scheduler/app/...", "manifests", "pkg/allocate", "pkg/apis/...", "pkg/backlog", "pkg/engine", "pkg/inventory", "pkg/ledger",
			"pkg/book", "pkg/gang", "pkg/metrics", "pkg/observe", "pkg/plugins/...", "pkg/podgroup/...", "pkg/preflight", "pkg/record", "pkg/request",
			"go.opentelemetry.io/otel/sdk/trace/tracetest", "pkg/topology", "pkg/tracing", "sigs.k8s.io/scheduler-plugins/...",
		}),
		why: "the scheduler as a whole against a real API server",
	},
	"test/manifests": {
		tests: slices.Concat(testLibraries, apiTypes, []string{
			"k8s.io/client-go/kubernetes/scheme", "k8s.io/kube-scheduler/framework", "k8s.io/kubernetes/pkg/scheduler/apis/config/...",
			"pkg/apis/config", "pkg/plugins/gputopology", "sigs.k8s.io/kustomize/...", "sigs.k8s.io/scheduler-plugins/apis/...",
		}),
		why: "manifests are tested as files; what they do in a cluster is tested with the scheduler running",
	},
	"test/perf/scheduler": {
		tests: slices.Concat(cluster, []string{
			"k8s.io/component-base/metrics/legacyregistry",
			"k8s.io/component-base/logs/json/register", "k8s.io/kubernetes/test/integration/scheduler_perf",
			"k8s.io/kubernetes/test/utils/client-go/ktesting", "pkg/apis/config", "pkg/engine", "pkg/plugins/...", "pkg/podgroup/crd",
		}),
		why: "scheduler_perf runs the plugins as the scheduler does; what it measures is left as it is",
	},
	"test/perf/outside": {
		imports: slices.Concat(client, []string{
			"pkg/apis/gputopology/v1alpha1", "pkg/controlplane/process", "pkg/podgroup/crd", "pkg/simulate", "pkg/simulate/oracle",
			"pkg/topology", "test/perf/results",
		}),
		tests: testLibraries,
		why:   "it measures programs from outside, so it links none of what it measures",
	},
	"test/perf/cycle": {
		tests: slices.Concat(cluster, []string{
			"k8s.io/kubernetes/cmd/kube-scheduler/app/options", "manifests", "pkg/apis/config", "pkg/engine", "pkg/ledger", "pkg/plugins/...", "pkg/simulate",
		}),
		why: "it runs the cycles of kube-scheduler with the plugins and the configuration that ship",
	},
	"test/perf/results": {
		tests: testLibraries,
		why:   "what a run leaves behind is values: every benchmark can write them and the report needs no scheduler to read them",
	},
	"test/perf/report": {
		imports: []string{"test/perf/results"}, tests: testLibraries,
		why: "it computes medians and ratios of what runs wrote, and can measure nothing itself",
	},
	"test/perf/gate": {
		tests: testLibraries,
		why:   "it judges what benchstat printed, and can measure nothing itself",
	},
}

// separations are about what a program links in the end.
var separations = []separation{
	{"cmd/gpu-topology-scheduler", "pkg/controlplane/...", "an API server is for tests and the demo; nothing users install links it"},
	{"cmd/gpu-topology-scheduler", "pkg/simulate/...", "a scheduler does not simulate"},
	{"pkg/simulate/...", "pkg/allocate", "the oracle would agree with any mistake that it shares"},
	{"cmd/kubectl-gputopo", "pkg/controlplane", "the control plane runs as its own program, so that the CLI stays small"},
	{"cmd/kubectl-gputopo", "k8s.io/kubernetes/...", "a CLI that links the scheduler or the API server is ten times its size"},
	{"cmd/...", "pkg/testkit", "builders for tests stay in tests"},
	{"test/chaos/...", "k8s.io/kubernetes/...", "a checker that links the scheduler cannot be told from it"},
	{"test/chaos/...", "pkg/ledger", "the check of who holds what would agree with any mistake that it shares"},
	{"test/chaos/...", "pkg/allocate", "the check of what fits would agree with any mistake that it shares"},
	{"test/perf/outside", "k8s.io/kubernetes/...", "its CPU time is no part of what it measures, and neither is its size"},
	{"test/perf/outside", "pkg/allocate", "the check of what was decided would agree with any mistake that it shares"},
	{"pkg/topology", "k8s.io/...", "the core runs without Kubernetes"},
	{"pkg/allocate", "k8s.io/...", "the core runs without Kubernetes"},
	{"pkg/ledger", "k8s.io/...", "the core runs without Kubernetes"},
	{"pkg/placement", "k8s.io/...", "the core runs without Kubernetes"},
	{"pkg/gang", "k8s.io/...", "the core runs without Kubernetes"},
	{"pkg/spread", "k8s.io/...", "the core runs without Kubernetes"},
}
