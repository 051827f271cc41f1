package tracing

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// cleared takes every variable of OpenTelemetry out of the test's environment.
func cleared(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
}

type environment struct {
	env     map[string]string
	want    string
	wantErr []string
}

// otlpWith is an environment that is refused for one of its variables.
func otlpWith(name, value string) environment {
	return environment{env: map[string]string{envExporter: "otlp", name: value}, wantErr: []string{name, strconv.Quote(value)}}
}

func TestEnvironment(t *testing.T) {
	const endpoint, unused = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"
	tests := map[string]environment{
		"nothing":                       {want: kindNone},
		"none":                          {env: map[string]string{envExporter: "none", endpoint: unused}, want: kindNone},
		"disabled":                      {env: map[string]string{envDisabled: "TRUE", envExporter: "otlp"}, want: kindNone},
		"console":                       {env: map[string]string{envExporter: "console"}, want: kindConsole},
		"otlp":                          {env: map[string]string{envExporter: "otlp"}, want: kindHTTP},
		"an endpoint alone":             {env: map[string]string{endpoint: unused}, want: kindHTTP},
		"an endpoint for traces":        {env: map[string]string{envTracesEndpoint: unused}, want: kindHTTP},
		"http/protobuf":                 {env: map[string]string{envExporter: "otlp", envProtocol: "http/protobuf"}, want: kindHTTP},
		"grpc":                          {env: map[string]string{envExporter: "otlp", envProtocol: "grpc"}, want: kindGRPC},
		"grpc for traces":               {env: map[string]string{envExporter: "otlp", envProtocol: "http/protobuf", envTracesProtocol: "grpc"}, want: kindGRPC},
		"a protocol alone asks nothing": {env: map[string]string{envProtocol: "grpc"}, want: kindNone},
		"unknown exporter":              {env: map[string]string{envExporter: "zipkin"}, wantErr: []string{envExporter, `"zipkin"`}},
		"two exporters":                 {env: map[string]string{envExporter: "otlp,console"}, wantErr: []string{envExporter, `"otlp,console"`}},
		"unknown protocol":              {env: map[string]string{envExporter: "otlp", envProtocol: "http/json"}, wantErr: []string{envProtocol, `"http/json"`}},
		"unknown protocol for traces":   {env: map[string]string{envExporter: "otlp", envTracesProtocol: "udp"}, wantErr: []string{envTracesProtocol, `"udp"`}},
		"no queue":                      otlpWith(envQueue, "0"),
		"a queue of no number":          otlpWith(envQueue, "many"),
		"a queue beyond all memory":     otlpWith(envQueue, "9223372036854775807"),
		"batches of less than nothing":  otlpWith(envBatch, "-1"),
		"no delay":                      otlpWith(envDelay, "0"),
		"a negative delay":              otlpWith(envDelay, "-5"),
		"a delay that overflows":        otlpWith(envDelay, "9223372036854775"),
		"an endpoint that is no URL":    otlpWith(envEndpoint, "::::"),
		"an endpoint without scheme":    otlpWith(envEndpoint, "collector:4317"),
		"an endpoint without host":      otlpWith(envTracesEndpoint, "http://"),
		"an endpoint of another kind":   otlpWith(envTracesEndpoint, "ftp://collector"),
		"long value":                    {env: map[string]string{envExporter: strings.Repeat("x", 1000)}, wantErr: []string{`x..."`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cleared(t)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			if len(tt.wantErr) > 0 {
				tracer, err := FromEnvironment(t.Context())
				if err == nil || tracer != nil {
					t.Fatalf("tracer %v, error %v", tracer, err)
				}
				for _, part := range tt.wantErr {
					if !strings.Contains(err.Error(), part) || len(err.Error()) > 300 {
						t.Errorf("%v; want it to say %s", err, part)
					}
				}
				return
			}
			kind, err := kindOf()
			if err != nil {
				t.Fatal(err)
			}
			if kind != tt.want {
				t.Errorf("exporter %q, want %q", kind, tt.want)
			}
			tracer, err := FromEnvironment(t.Context())
			if err != nil || (tracer == nil) != (kind == kindNone) {
				t.Errorf("tracer %v, %v", tracer, err)
			}
			shutdown(t, tracer)
		})
	}
}

// TestOTLP: what a collector gets, with the name and the sampler that the environment asks for.
func TestOTLP(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		want int64
	}{
		"all":  {want: 1},
		"none": {env: map[string]string{"OTEL_TRACES_SAMPLER": "always_off"}, want: 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cleared(t)
			var posts atomic.Int64
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/traces" {
					posts.Add(1)
				}
			}))
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			tracer, err := FromEnvironment(t.Context())
			if err != nil || tracer == nil {
				t.Fatalf("tracer %v, %v", tracer, err)
			}
			tracer.Start(t.Context(), nil, SpanBind).End(Details{Pod: "p"})
			shutdown(t, tracer)
			if got := posts.Load(); got != tt.want {
				t.Errorf("the collector got %d requests, want %d", got, tt.want)
			}
			collector.CloseClientConnections()
			collector.Close()
		})
	}
}

func TestQueueSize(t *testing.T) {
	for value, want := range map[string]int{"": 2048, "100": 100} {
		t.Setenv(envQueue, value)
		if got := queueSize(); got != want {
			t.Errorf("%s=%q gives %d, want %d", envQueue, value, got, want)
		}
	}
}
